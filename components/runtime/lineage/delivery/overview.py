"""What a run's own page in MLflow opens on: its results as a table, what it read and made, and links.

All of it comes from the ledger in the store, or from the spool, so delivering an event again writes the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from components.contract.artifacts import METRICS_FILE, ArtifactType
from components.contract.display import Results
from components.contract.errors import PosttrainError
from components.contract.headlines import in_order
from components.contract.registry import components
from components.runtime.ledger.records import failure_key, stage_key
from components.runtime.lineage.delivery.runs_page import PER_STAGE, final_stages
from components.runtime.lineage.events import RunStarted, StageFinished, UsedArtifact
from components.runtime.lineage.heal import rebuilt
from components.runtime.lineage.names import mlflow_value

if TYPE_CHECKING:
    from components.runtime.store import Store

MAX_ROWS, MAX_HEADLINES = 60, 4
"""Most rows of the results table, and final stages in the first line."""
MEASURES = "metrics"
"""Output port with the values and intervals of a measuring stage."""


@dataclass
class Overview:
    """One run as its ledger knows it."""

    store: Store
    first: RunStarted

    @cached_property
    def entries(self) -> dict[str, dict[str, Any]]:
        """Return stage -> ledger entry of the stages that are done, in the order of the plan."""
        found: dict[str, dict[str, Any]] = {}
        for stage in self.first.stages:
            entry = self._read(stage_key(self.first.run_id, stage.name))
            if entry and entry["status"] == "done":
                found[stage.name] = entry
        return found

    @property
    def final(self) -> dict[str, dict[str, Any]]:
        """Return the entries of the final stages."""
        return {name: self.entries[name] for name in final_stages(self.first) if name in self.entries}

    def read(self) -> dict[str, list[UsedArtifact]]:
        """Return what the stages read, by their role: training, measuring ..."""
        found: dict[str, list[UsedArtifact]] = {}
        for entry in self.entries.values():
            items = [UsedArtifact.model_validate(item) for items in entry["inputs"].values() for item in items]
            known = found.setdefault(_role(entry["component"]), [])
            known += [item for item in items if item not in known]
        return found

    def models(self) -> list[str]:
        """Return the digests of the run's result: the models that its final stages made, or else those they read."""
        found: dict[str, None] = {}
        for entry in self.final.values():
            made = [output["digest"] for output in entry["outputs"].values() if output["type"] == ArtifactType.MODEL]
            ports = {port: items for port, items in entry["inputs"].items() if items}
            read = ports.get("model") or next((i for i in ports.values() if i[0]["type"] == ArtifactType.MODEL), [])
            found |= dict.fromkeys(made or [item["digest"] for item in read if item["type"] == ArtifactType.MODEL])
        return list(found)

    def description(self, places: Mapping[str, str], status: str | None = None, *, report: bool = False) -> str:
        """Return Markdown; `places` are MLflow's ids.

        MLflow folds all but the first lines: they are how the run ended, its results, and where to read on.
        """
        head = [f"**{status}**" if status else "", *self._headlines()]
        parts = [" · ".join(filter(None, head)), " · ".join(self._links(places, report=report))]
        parts += ["  \n".join(self._failures()), *self._tables(places), _plain(self.first.summary or self.first.recipe)]
        if pages := [f"[{name}]({page})" for name, page in self._stage_pages(places).items()]:
            parts.append(f"Stages: {' · '.join(pages)}")
        if self.first.command:
            parts.append(f"Reproduce: `{mlflow_value(self.first.command)}`")
        return "\n\n".join(filter(None, parts))

    def _headlines(self) -> Iterator[str]:
        """Yield the results of the final stages that measure, in one line each."""
        for name, entry in list(self.final.items())[:MAX_HEADLINES]:
            if results := _results(entry["component"]):
                values = list(in_order(entry["component"], entry["metrics"]).items())[:PER_STAGE]
                measured = self._measured(entry)
                texts = [f"{key} {_cell(measured.get(key), value, share=results.share)}" for key, value in values]
                yield f"{name}: {', '.join(texts)}{' %' if results.share else ''}"

    def _failures(self) -> Iterator[str]:
        for stage in self.first.stages:
            failure = self._read(failure_key(self.first.run_id, stage.name))
            if failure and stage.name not in self.entries:
                yield f"{stage.name}: {_plain(str(failure.get('error', '')))[:300]}"

    def _tables(self, places: Mapping[str, str]) -> Iterator[str]:
        """Yield a table for each kind of measurement, a row for each stage that measured."""
        kinds: dict[str, list[str]] = {}
        for name, entry in self.entries.items():
            if _results(entry["component"]):
                kinds.setdefault(entry["component"], []).append(name)
        for component, stages in kinds.items():
            results = _results(component)
            assert results is not None
            columns: dict[str, None] = {}
            for name in stages:
                columns |= dict.fromkeys(list(in_order(component, self.entries[name]["metrics"]))[:PER_STAGE])
            title = f"{results.about or results.name}{', % with 95 % intervals' if results.share else ''}"
            rows = [["stage", results.subject, *columns], ["---"] * (2 + len(columns))]
            rows += [self._row(name, results, columns, places) for name in stages[:MAX_ROWS]]
            more = f"\n\n{len(stages) - MAX_ROWS} more in the report" if len(stages) > MAX_ROWS else ""
            yield f"**{title}**\n\n" + "\n".join(f"| {' | '.join(cells)} |" for cells in rows) + more

    def _row(self, name: str, results: Results, columns: Mapping[str, None], places: Mapping[str, str]) -> list[str]:
        entry = self.entries[name]
        subjects = [_plain(item["source"]) for item in entry["inputs"].get(results.subject, ())]
        measured = self._measured(entry)
        page = self._stage_pages(places).get(name)
        title = f"[{name}]({page})" if page else name
        cells = [_cell(measured.get(column), entry["metrics"].get(column), share=results.share) for column in columns]
        return [title, ", ".join(subjects), *cells]

    def _measured(self, entry: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a measuring stage's values with their intervals; empty if its artifact is gone."""
        output = entry["outputs"].get(MEASURES)
        if output is None:
            return {}
        try:
            found = json.loads((self.store.fetch(output["digest"]) / METRICS_FILE).read_text(encoding="utf-8"))
        except (PosttrainError, OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def _links(self, places: Mapping[str, str], *, report: bool) -> Iterator[str]:
        run = _run_page(places["experiment"], places["run"])
        if report:
            path, _, query = run.partition("?")
            yield f"[report]({path}/artifacts/report/index.html?{query})"
        yield f"[recipe]({run.replace('?', '/artifacts/recipe.yaml?')})"
        if fork := self.first.fork:
            words = f"forked from {fork['run']} at {fork['stage']}@{fork['step']}"
            page = _run_page(places["experiment"], places["forked"]) if "forked" in places else ""
            yield f"[{_plain(words)}]({page})" if page else _plain(words)
        prefix = f"spool/{self.first.run_id}/models/"
        for model in sorted({key.removeprefix(prefix).rpartition("/")[0] for key in self.store.keys(prefix)}):
            yield f"[model {model}](#/models/{quote(model, safe='')}?workflowType=machine_learning)"

    def _stage_pages(self, places: Mapping[str, str]) -> dict[str, str]:
        runs = {stage.name: places.get(f"stage:{stage.name}") for stage in self.first.stages}
        return {name: _run_page(places["experiment"], run) for name, run in runs.items() if run}

    def _read(self, key: str) -> dict[str, Any] | None:
        try:
            return self.store.get(key) or rebuilt(self.store, key)  # the spool alone has it where the ledger is gone
        except PosttrainError:  # a damaged record: the page does without it
            return None


def stage_note(event: StageFinished) -> str:
    """Return Markdown on a stage: its kind, how it ended, and its headline metrics."""
    shown = list(in_order(event.component, event.metrics).items())[:PER_STAGE]
    texts = [
        event.component,
        "failed" if event.failed else event.status,
        *(f"{name} {value:.4g}" for name, value in shown),
    ]
    if event.cache == "hit" and event.produced_by:
        texts.append(f"cached, made by run {event.produced_by.run_id}")
    return " · ".join(map(_plain, texts))


def _role(component: str) -> str:
    try:
        return str(components().get(component).role.value)
    except PosttrainError:  # not installed here
        return component


def _results(component: str) -> Results | None:
    try:
        found: Results | None = components().get(component).results
    except PosttrainError:  # not installed here
        return None
    return found


def _cell(measured: Any, value: float | None, *, share: bool) -> str:
    """Return a number, or a share from 0 to 1 in per cent, with its interval."""
    known = measured if isinstance(measured, dict) else {}
    ends = [known.get("low"), known.get("high")]
    if value is None:
        return "-"

    def text(number: float) -> str:
        return f"{100 * number:.1f}" if share else f"{number:.4g}"

    return text(value) + (f" [{text(ends[0])}, {text(ends[1])}]" if None not in ends else "")


def _run_page(experiment: str, run: str) -> str:
    return f"#/experiments/{experiment}/runs/{run}?workflowType=machine_learning"


def _plain(text: str) -> str:
    """Return text in one line that Markdown shows as it is: what a person or a model wrote makes no link or page."""
    return "".join(f"\\{char}" if char in "\\`*_[]<>|#~!&" else char for char in " ".join(text.split()))
