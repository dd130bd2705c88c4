"""What earlier runs of a recipe did, read from the ledger: why a stage is not cached, and how long it may take."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from difflib import SequenceMatcher
from functools import cached_property
from typing import TYPE_CHECKING, Any

from components.contract.artifacts import ArtifactType, canonical_json
from components.contract.errors import CorruptArtifact
from components.contract.operator_files.names import travel_name, without_digests
from components.runtime.costs.amounts import Rate
from components.runtime.ledger.records import action_key, run_key, stage_key
from components.runtime.ledger.sequence import in_order
from pipelines.plan.startup import Startup

if TYPE_CHECKING:
    from components.runtime.store import Store

Models = Mapping[str, Sequence[str]]

MAX_RUNS = 5
"""Runs examined, newest first."""
MAX_NAMED = 3
"""Differences that a reason names; the others are counted."""
MAX_VALUE = 40
_DATA_FILE = re.compile(r"(.+) \([0-9a-f]{12}\)")
"""A data file's name in a fingerprint: with the digest of its content."""


class History:
    """The newest runs of one recipe in a store, read lazily."""

    def __init__(self, store: Store, recipe: str, *, before: str | None = None) -> None:
        """With `before`, a run, only the runs that began before it: what was known when it was planned."""
        self._store = store
        self._recipe = recipe
        self._before = before
        self._other_models: set[str] = set()
        """Stages that take another model than in their last run."""

    def last_action(self, stage: str) -> dict[str, Any] | None:
        """Return the action record behind the newest ended execution of a stage."""
        for run_id, stages in self._runs.items():
            if stage in stages and (entry := self._entry(run_id, stage)) and entry["status"] == "done":
                with suppress(CorruptArtifact):
                    return self._store.get(action_key(entry["fingerprint"]))
        return None

    def seconds(self, stage: str, component: str, rate: Rate, models: Models) -> float | None:
        """Return the duration of the stage's last run, or else of a stage of its component; None if there is none.

        One on other hardware, or with another model, says nothing. `models` are the sources of the stage's models by
        port, such as "sft.model"; call it in the order of the graph: a stage behind another model has one, too.
        """
        action = self.last_action(stage)
        if action is None:
            times = self._component_times.get(component, ())
            return max((time for planned, time in times if _is_alike(planned, rate)), default=None)
        made_by = str(action.get("run_id")), str(action.get("stage"))
        before = models_of(self._entry(*made_by) or {})
        behind = {source.partition(".")[0] for sources in models.values() for source in sources} & self._other_models
        if behind or any(before.get(port, sources) != sources for port, sources in models.items()):
            self._other_models.add(stage)
            return None
        alike = _is_alike(self._planned(*made_by), rate)
        return float(action["seconds"]) if alike else None

    def seconds_by_pool(self, stage: str, params: Mapping[str, Any]) -> dict[str, float]:
        """Return pool -> the duration of the stage's newest run there with these parameters."""
        found: dict[str, float] = {}
        for run_id, stages in self._runs.items():
            entry = self._entry(run_id, stage) if stage in stages else None
            planned = self._planned(run_id, stage) if entry and entry["cache"] == "miss" else None
            if entry and planned and entry["status"] == "done" and planned.get("params") == params:
                found.setdefault(str(planned.get("pool")), float(entry["seconds"]))
        return found

    def startup(self, engine: str) -> Startup:
        """Return what stages take on an engine beside their work."""
        return Startup(self._store, self._runs, engine)

    @cached_property
    def _runs(self) -> dict[str, list[str]]:
        """Return run -> stages that ended, newest run first."""
        key = re.compile(rf"ledger/({re.escape(self._recipe)}-\d{{8}}-\d{{6}}-[0-9a-f]+)/stages/([^/]+)\.json")
        found: dict[str, list[str]] = {}
        for name in self._store.keys(f"ledger/{self._recipe}-"):
            if match := key.fullmatch(name):
                found.setdefault(match[1], []).append(match[2])
        order = in_order(self._store, list({**found, **({self._before: []} if self._before else {})}))
        newest = (order[: order.index(self._before)] if self._before else order)[::-1]
        return {run_id: found[run_id] for run_id in newest[:MAX_RUNS]}

    @cached_property
    def _component_times(self) -> dict[str, list[tuple[Mapping[str, Any] | None, float]]]:
        """Return component -> the executions of its stages in the newest runs: their plan, and seconds."""
        times: dict[str, list[tuple[Mapping[str, Any] | None, float]]] = {}
        for run_id, stages in self._runs.items():
            for stage in stages:
                entry = self._entry(run_id, stage)
                if entry and entry["status"] == "done" and entry["cache"] == "miss":
                    time = self._planned(run_id, stage), float(entry["seconds"])
                    times.setdefault(entry["component"], []).append(time)
        return times

    def _planned(self, run_id: str, stage: str) -> dict[str, Any] | None:
        with suppress(CorruptArtifact):
            run = self._store.get(run_key(run_id)) or {}
            return next((planned for planned in run.get("stages", ()) if planned["name"] == stage), None)
        return None

    def _entry(self, run_id: str, stage: str) -> dict[str, Any] | None:
        try:
            return self._store.get(stage_key(run_id, stage))
        except CorruptArtifact:  # history is advice: the run's own commands report the damage
            return None


def models_of(entry: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return port -> the sources of a stage's models, by its ledger entry; empty if they are not on record."""
    return {
        port: [item["source"] for item in items]
        for port, items in entry.get("inputs", {}).items()
        if any(item["type"] == ArtifactType.MODEL for item in items)
    }


def _is_alike(planned: Mapping[str, Any] | None, rate: Rate) -> bool:
    """Return whether a stage's time on its pool, by its record in a run, says how long it takes at this rate.

    Any pool without GPUs is like another one; runs from before rates were recorded name their pool.
    """
    if planned is None:
        return True
    before = Rate.of_record(planned.get("rate"))
    if before is None:
        return bool(planned.get("pool", rate.pool) == rate.pool)
    return before.gpus == rate.gpus and (not rate.gpus or before.pool == rate.pool)


def differences(before: Mapping[str, Any], now: Mapping[str, Any], *, inputs: bool = True) -> list[str]:
    """Return what differs between the parts of two fingerprints, in words; inputs too if `inputs`."""
    found: list[str] = []
    if before["component"] != now["component"]:
        found.append(f"component {before['component']} -> {now['component']}")
    params = list(_changes("", before["params"], now["params"]))
    found += _named("parameter", params)
    if before["seed"] != now["seed"]:
        found.append(f"seed {before['seed']} -> {now['seed']}")
    if inputs:
        ports = sorted({*before["inputs"], *now["inputs"]})
        changed = [port for port in ports if before["inputs"].get(port) != now["inputs"].get(port)]
        found += [f"input {port} changed" for port in changed]
    if before["epoch"] != now["epoch"]:  # code is named and hashed differently: its differences mean nothing
        return [*found, f"posttrain's own epoch {before['epoch']} -> {now['epoch']}"]
    if not params:  # not visible in parameters: a preset's constants, and defaults of an operator's config
        found += _named("operator", list(_changes("", _by_name(before), _by_name(now))))
    found += _files(before["code"], now["code"])
    found += _named("package", list(_changes("", before.get("packages", {}), now.get("packages", {}))))
    found += _named("backend", list(_changes("", before.get("backends", {}), now.get("backends", {}))))
    if not found and inputs and before.get("verifiers") != now.get("verifiers"):
        found.append("which verifiers its rows name is known otherwise than then")
    return found


def _named(kind: str, changes: Sequence[str]) -> list[str]:
    named = [f"{kind} {change}" for change in changes[:MAX_NAMED]]
    return [*named, f"and {len(changes) - MAX_NAMED} more"] if len(changes) > MAX_NAMED else named


def _by_name(parts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configs of a stage's operators by slot and name, numbered where one occurs several times."""
    found: dict[str, Any] = {}
    for operator in parts.get("operators", ()):
        name = f"{operator['slot']} {operator['name']}"
        count = sum(known.partition(" #")[0] == name for known in found)
        found[f"{name} #{count + 1}" if count else name] = operator["config"]
    return found


def _files(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    changed = [name for name in sorted({*before, *now}) if before.get(name) != now.get(name)]
    code = [name for name in changed if not _DATA_FILE.fullmatch(name)]
    data = [match[1] for name in changed if (match := _DATA_FILE.fullmatch(name))]
    kinds = {"code": code, "file": list(dict.fromkeys(data))}  # a file that changed has its old name and its new one
    return [
        f"{kind} changed: {', '.join(files[:MAX_NAMED])}"
        + (f" and {len(files) - MAX_NAMED} more" if len(files) > MAX_NAMED else "")
        for kind, files in kinds.items()
        if files
    ]


def _changes(name: str, before: Any, now: Any) -> Iterator[str]:
    """Yield one line for each changed value in nested mappings and lists."""
    if before == now:
        return
    mappings = [isinstance(value, Mapping) for value in (before, now)]
    if all(mappings) or (any(mappings) and None in (before, now) and (before or now)):
        for key in {**(before or {}), **(now or {})}:
            yield from _changes(f"{name}.{key}" if name else str(key), (before or {}).get(key), (now or {}).get(key))
    elif isinstance(before, list) and isinstance(now, list):
        yield from _list_changes(name, before, now)
    elif edited := _edited(before, now):
        yield f"{name}: {edited}"
    else:
        yield f"{name}: {_short(before)} -> {_short(now)}"


def _edited(before: Any, now: Any) -> str | None:
    """Return in words that an operator's file was edited, if that is what differs."""
    old, new = (travel_name(value) if isinstance(value, str) else None for value in (before, now))
    if old is None or new is None or (old.file, old.function) != (new.file, new.function):
        return None
    return f"{old.file}:{old.function} or what it imports was edited ({old.digest[:8]} -> {new.digest[:8]})"


def _list_changes(name: str, before: list[Any], now: list[Any]) -> Iterator[str]:
    """Yield added, removed and changed items; changes inside items that kept their position."""
    old, new = ([canonical_json(item) for item in items] for items in (before, now))
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    for kind, i, j, k, m in matcher.get_opcodes():
        if kind == "equal":
            continue
        if j - i == m - k:
            for offset in range(j - i):
                yield from _changes(f"{name}.{k + offset}", before[i + offset], now[k + offset])
            continue
        yield from (f"{name}: without {_short(item)}" for item in before[i:j])
        yield from (f"{name}: new {_short(item)}" for item in now[k:m])


def _short(value: Any) -> str:
    text = without_digests(str(value))
    return text if len(text) <= MAX_VALUE else f"{text[: MAX_VALUE - 3]}..."
