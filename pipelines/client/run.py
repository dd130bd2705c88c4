"""A run of the store, to look at: what its stages made, measured and wrote."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.contract.errors import InputError, UnknownName
from pipelines.client.errors import told_plainly
from pipelines.client.tables import HISTORY, METRICS, beside, frame, stage_table
from pipelines.runs.default_store import chosen_store
from pipelines.runs.find import LATEST, find_run

if TYPE_CHECKING:
    import pandas as pd
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from components.runtime.ledger.ledger import RunRecord
    from pipelines.client.lineage import Lineage
    from pipelines.client.report import Report
    from pipelines.client.samples import Samples

MODEL = "Model"
RUNS = ("run", "recipe", "status", "stages", "ended_stages", "started", "seconds")


class Run:
    """One run: read anew at every use, so that one that is going on can be followed. A notebook shows its report."""

    @told_plainly
    def __init__(self, run: str = LATEST, *, store: str | Path | None = None) -> None:
        """`run` is an id or its beginning, a recipe's name (its newest run) or "latest". Raises InputError."""
        self.store = chosen_store(None if store is None else str(store))
        self.id = find_run(self.store, run)

    @property
    def status(self) -> str:
        """Return succeeded, failed, stopped, waiting, unfinished (it is going on, or was killed) or unreadable."""
        return self._record().status

    @property
    def recipe(self) -> str:
        """Return the name of its recipe."""
        return str(self._record().entry.get("recipe"))

    @property
    def params(self) -> dict[str, Any]:
        """Return the recipe's parameters in this run."""
        return dict(self._record().entry.get("params") or {})

    @property
    def command(self) -> str:
        """Return the shell command that gives the same results."""
        return str(self._record().entry.get("command"))

    @property
    def stages(self) -> pd.DataFrame:
        """Return a row per stage in the order of the recipe: component, status (done, skipped, failed, blocked, waiting
        or pending), cached, seconds, pool, seed, outputs (port -> digest), error, and the labels of a matrix."""
        from components.runtime.ledger.shown import show_json

        record = self._record()
        return stage_table(
            show_json(record), {name: str(stage.get("pool") or "") for name, stage in record.planned.items()}
        )

    @told_plainly
    def metrics(self, stage: str | None = None) -> pd.DataFrame:
        """Return a row per metric of every stage that ended: stage, metric, value, its 95 % interval (low, high) and
        the number n of what it is over where these are known, and the labels of a matrix.

        `stage` is one stage, or the name that it has in all cells of a matrix. Raises UnknownName.
        """
        from pipelines.runs.tables import labels_of, metric_rows, stages_named

        record = self._record()
        rows = [
            {"stage": name, **row, **beside(labels_of(record, name), METRICS)}
            for name in stages_named(record, stage)
            for row in metric_rows(self.store, record, name)
        ]
        return frame(rows, METRICS)

    @told_plainly
    def history(self, stage: str | None = None) -> pd.DataFrame:
        """Return a row per logged step of the stages that train: stage, step, what was logged, labels of a matrix.

        `stage` as for `metrics`. Raises UnknownName.
        """
        from pipelines.runs.tables import history_rows, labels_of, stages_named

        record = self._record()
        rows = [
            {"stage": name, **row, **beside(labels_of(record, name), tuple(row))}
            for name in stages_named(record, stage)
            for row in history_rows(self.store, record, name)
        ]
        return frame(rows, HISTORY)

    @told_plainly
    def samples(self, stage: str | None = None, **wish: Any) -> Samples:
        """Return what models wrote, the worst first; of a running stage what its newest checkpoint has.

        `wish` chooses: step=N, outcome="right" | "wrong" | "failed", domain=NAME, search=TEXT, prompt_id=ID,
        sort="reward" | "best" | "length" | "step", limit=10. Raises InputError where there is nothing to choose from.
        """
        from pipelines.client.samples import find

        return find(self.store, self._record(), stage, **wish)

    @told_plainly
    def model(self, output: str | None = None, **options: Any) -> PreTrainedModel:
        """Return a model of the run as transformers has it; `output` is "stage.port", the last model without it.

        `options` go to AutoModelForCausalLM.from_pretrained, such as dtype="bfloat16" or device_map="auto".
        """
        with _no_word_of_widgets():
            from transformers import AutoModelForCausalLM

        found: PreTrainedModel = AutoModelForCausalLM.from_pretrained(
            self._folder(output), **{**options, "trust_remote_code": False}
        )
        return found

    @told_plainly
    def tokenizer(self, output: str | None = None) -> PreTrainedTokenizerBase:
        """Return the tokenizer of a model of the run, with its chat template; `output` as for `model`."""
        with _no_word_of_widgets():
            from transformers import AutoTokenizer

        found: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(self._folder(output), trust_remote_code=False)
        return found

    @told_plainly
    def lineage(self, output: str | None = None, *, descendants: bool = False) -> Lineage:
        """Return which data, code and parameters made an output, or with `descendants` what was made of it, in any run.

        `output` is "stage.port", the last model without it.
        """
        from components.runtime.lineage.graph import graph
        from pipelines.client.lineage import Lineage

        walk = graph.descendants if descendants else graph.ancestors
        return Lineage(walk(self.store, self._reference(output)))

    @told_plainly
    def report(self) -> Report:
        """Return the run's report, which a notebook shows inline."""
        from pipelines.client.report import Report
        from pipelines.report.collect import collect
        from pipelines.report.page import render_page

        return Report(self.id, render_page(collect(self.store, self.id)))

    @told_plainly
    def approve(self, stage: str, *, reject: bool = False) -> None:
        """Let a stage that waits for a person go on, or `reject` it; then run the recipe again.

        Raises InputError for a stage that is unknown, needs no approval, or was decided before.
        """
        from pipelines.engines.decisions import decide_stage

        decide_stage(self.store, self.id, stage, approved=not reject)

    def __repr__(self) -> str:
        return f"<Run {self.id}: {self.status}>"

    def _repr_html_(self) -> str:
        return self.report()._repr_html_()

    def _record(self) -> RunRecord:
        from components.runtime.ledger.ledger import load_run

        return load_run(self.store, self.id)

    def _folder(self, output: str | None) -> Path:
        from components.modeling.models.folder import read_config
        from pipelines.models.find import find_model

        folder = find_model(self.store, self._reference(output)).folder
        read_config(folder)  # of a component whose models are no language models: says so
        return folder

    def _reference(self, output: str | None) -> str:
        record = self._record()
        made = {
            f"{stage}.{port}": str(item["type"])
            for stage, entry in record.stages.items()
            for port, item in entry["outputs"].items()
        }
        models = [name for name, type in made.items() if type == MODEL]
        if output is None and not models:
            raise InputError(f"run {self.id} has made no model yet")
        if output is not None and output not in made:
            raise UnknownName(f"output of run {self.id}", output, made)
        return f"{self.id}:{output or models[-1]}"


@told_plainly
def runs(*, store: str | Path | None = None) -> pd.DataFrame:
    """Return a row per run of a store, newest first: run, recipe, status, stages, those that ended, start, seconds."""
    from components.runtime.ledger.run_list import list_runs

    rows = list_runs(chosen_store(None if store is None else str(store)))
    return frame([{"run": row["run_id"], **{name: row[name] for name in RUNS[1:]}} for row in rows], RUNS)


@contextmanager
def _no_word_of_widgets() -> Iterator[None]:
    """Keep from a notebook what a progress bar of a library says when it is imported where there are no widgets."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="IProgress not found")
        yield
