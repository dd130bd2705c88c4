"""What earlier runs of a recipe did, read from the ledger: why a stage is not cached, and how long it may take."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from components.contract.errors import CorruptArtifact
from components.runtime.records import action_key, stage_key

if TYPE_CHECKING:
    from components.runtime.store import Store

MAX_RUNS = 5
"""Runs that are looked at, newest first."""
MAX_NAMED = 3
"""Differences that a reason names; the others are counted."""
_DATA_FILE = re.compile(r"(.+) \([0-9a-f]{12}\)")
"""How a fingerprint names a file of data: by its content, too."""


class History:
    """The newest runs of one recipe in a store; nothing is read before it is asked for."""

    def __init__(self, store: Store, recipe: str) -> None:
        self._store = store
        self._recipe = recipe

    def last_action(self, stage: str) -> dict[str, Any] | None:
        """Return the action record behind the newest ended execution of a stage."""
        for run_id, stages in self._runs.items():
            if stage in stages and (entry := self._entry(run_id, stage)) and entry["fingerprint"]:
                return self._store.get(action_key(entry["fingerprint"]))
        return None

    def seconds(self, stage: str, component: str) -> float | None:
        """Return how long the stage took when it last ran, or else a stage of its component; None if none did."""
        action = self.last_action(stage)
        if action is not None:
            return float(action["seconds"])
        return self._component_seconds.get(component)

    @cached_property
    def _runs(self) -> dict[str, list[str]]:
        """Return run -> stages that ended, newest run first."""
        key = re.compile(rf"ledger/({re.escape(self._recipe)}-\d{{8}}-\d{{6}}-[0-9a-f]+)/stages/([^/]+)\.json")
        found: dict[str, list[str]] = {}
        for name in self._store.keys(f"ledger/{self._recipe}-"):
            if match := key.fullmatch(name):
                found.setdefault(match[1], []).append(match[2])
        return {run_id: found[run_id] for run_id in sorted(found, reverse=True)[:MAX_RUNS]}

    @cached_property
    def _component_seconds(self) -> dict[str, float]:
        """Return component -> longest execution among the stages of the newest runs."""
        longest: dict[str, float] = {}
        for run_id, stages in self._runs.items():
            for stage in stages:
                entry = self._entry(run_id, stage)
                if entry and entry["status"] == "done" and entry["cache"] == "miss":
                    component = entry["component"]
                    longest[component] = max(float(entry["seconds"]), longest.get(component, 0.0))
        return longest

    def _entry(self, run_id: str, stage: str) -> dict[str, Any] | None:
        try:
            return self._store.get(stage_key(run_id, stage))
        except CorruptArtifact:  # history is advice: the run's own commands tell of the damage
            return None


def differences(before: Mapping[str, Any], now: Mapping[str, Any], *, inputs: bool = True) -> list[str]:
    """Return what differs between the parts of two fingerprints, in words; `inputs` says whether to compare those."""
    found: list[str] = []
    if before["component"] != now["component"]:
        found.append(f"component {before['component']} -> {now['component']}")
    found += _named("parameter", dict(_leaves(before["params"])), dict(_leaves(now["params"])))
    if before["seed"] != now["seed"]:
        found.append(f"seed {before['seed']} -> {now['seed']}")
    if inputs:
        ports = sorted({*before["inputs"], *now["inputs"]})
        changed = [port for port in ports if before["inputs"].get(port) != now["inputs"].get(port)]
        found += [f"input {port} changed" for port in changed]
    found += _files(before["code"], now["code"])
    if before["epoch"] != now["epoch"]:
        found.append(f"posttrain's own epoch {before['epoch']} -> {now['epoch']}")
    return found


def _named(kind: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    changed = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    named = [f"{kind} {name}: {_short(before.get(name))} -> {_short(now.get(name))}" for name in changed[:MAX_NAMED]]
    return [*named, f"and {len(changed) - MAX_NAMED} more"] if len(changed) > MAX_NAMED else named


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


def _leaves(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for name, item in value.items():
            yield from _leaves(item, f"{prefix}.{name}" if prefix else str(name))
    else:
        yield prefix, value


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
