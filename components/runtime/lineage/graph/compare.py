"""Two runs side by side: which parameters, code and headline metrics differ."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from components.contract.artifacts import METRICS_FILE
from components.contract.errors import CorruptArtifact, InputError
from components.runtime.ledger.ledger import Ledger, RunRecord
from components.runtime.lineage.names import flatten

if TYPE_CHECKING:
    from components.runtime.store import Store

ABSENT = None
CODE_FACTS = ("version", "dirty", "lock")
BOUNDS = ("low", "high", "n")


@dataclass(frozen=True)
class Comparison:
    """Differences between two runs, as JSON-ready rows; null means "has none"."""

    run_a: str
    run_b: str
    params: list[dict[str, Any]]
    """{"stage", "name", "a", "b"}; the run's own parameters have stage null."""
    code: list[dict[str, Any]]
    """{"stage", "name", "a", "b"}: version, dirty, lock, the machine, and SHA-256 of each source file that
    differs."""
    metrics: list[dict[str, Any]]
    """{"stage", "name", "a", "b", "difference"}: a and b are {"value"} with "low", "high", "n" where measured."""
    stages: list[dict[str, Any]]
    """{"stage", "name", "a", "b"}: "status", for stages that only one run has or that ended differently."""

    def to_json(self) -> dict[str, Any]:
        """Return the comparison for scripts."""
        return {
            "runs": [self.run_a, self.run_b],
            "params": self.params,
            "code": self.code,
            "metrics": self.metrics,
            "stages": self.stages,
        }


def compare_runs(store: Store, run_a: str, run_b: str) -> Comparison:
    """Compare two runs, given by id or a unique prefix; raise UnknownName with near misses."""
    ledger = Ledger(store)
    a, b = ledger.run(run_a), ledger.run(run_b)
    names = list(dict.fromkeys([*a.stage_names, *b.stage_names]))
    pairs = [(name, a.stages.get(name), b.stages.get(name)) for name in names]
    return Comparison(
        a.run_id,
        b.run_id,
        params=[
            *_differences(None, _leaves(a.entry.get("params")), _leaves(b.entry.get("params"))),
            *(row for name, left, right in pairs if left and right for row in _params(ledger, name, left, right)),
        ],
        code=[row for name, left, right in pairs if left and right for row in _code(ledger, name, left, right)],
        metrics=[row for name, left, right in pairs for row in _metrics(ledger, name, left, right)],
        stages=[row for name, _, _ in pairs for row in _status(name, a, b)],
    )


def _params(ledger: Ledger, stage: str, a: dict[str, Any], b: dict[str, Any]) -> Iterable[dict[str, Any]]:
    return _differences(stage, settings(ledger, a), settings(ledger, b))


def settings(ledger: Ledger, entry: dict[str, Any]) -> dict[str, Any]:
    """Return all parameters that a stage ran with, including defaults, since a code change may change those."""
    params = _parts(ledger, entry).get("params", entry["params"])
    return _leaves(params) | {"seed": entry["seed"], "component": entry["component"]}


def _code(ledger: Ledger, stage: str, a: dict[str, Any], b: dict[str, Any]) -> Iterable[dict[str, Any]]:
    parts = [_parts(ledger, entry) for entry in (a, b)]
    facts = [{name: entry["code"].get(name) for name in CODE_FACTS} for entry in (a, b)]
    if "machine" in a and "machine" in b:  # digests may differ by these alone
        facts = [known | entry["machine"] for known, entry in zip(facts, (a, b), strict=True)]
    if parts[0].get("epoch") == parts[1].get("epoch"):  # other epochs name and hash files differently
        facts = [known | _worked(part) for known, part in zip(facts, parts, strict=True)]
    return _differences(stage, *facts)


def _parts(ledger: Ledger, entry: dict[str, Any]) -> dict[str, Any]:
    """Return the parts of a stage's fingerprint; empty if its action is gone."""
    action = ledger.action(entry["fingerprint"]) if entry["fingerprint"] else None
    return action["parts"] if action else {}


def _worked(parts: dict[str, Any]) -> dict[str, Any]:
    """Return what did the work: operator configs, package versions, and files with their hashes."""
    constants = _leaves({f"{one['slot']} {one['name']}": one["config"] for one in parts.get("operators", ())})
    packages = {f"package {name}": version for name, version in parts.get("packages", {}).items()}
    return constants | packages | parts.get("code", {})


def _status(stage: str, a: RunRecord, b: RunRecord) -> Iterable[dict[str, Any]]:
    left, right = ({"status": run.stages[stage]["status"]} if stage in run.stages else {} for run in (a, b))
    return _differences(stage, left, right)


def _metrics(
    ledger: Ledger, stage: str, a: dict[str, Any] | None, b: dict[str, Any] | None
) -> Iterable[dict[str, Any]]:
    left, right = _measured(ledger, a), _measured(ledger, b)
    for name in dict.fromkeys([*left, *right]):
        row = {"stage": stage, "name": name, "a": left.get(name), "b": right.get(name), "difference": None}
        if name in left and name in right:
            row["difference"] = right[name]["value"] - left[name]["value"]
        yield row


def _measured(ledger: Ledger, entry: dict[str, Any] | None) -> dict[str, dict[str, Any]]:
    """Return a stage's headline metrics, with intervals if its Metrics output has them."""
    if not entry or not entry["metrics"]:
        return {}
    intervals: dict[str, Any] = {}
    for output in entry["outputs"].values():
        if output["type"] == "Metrics":
            intervals |= _intervals(ledger, output["digest"])
    measured = {}
    for name, value in entry["metrics"].items():
        known = intervals.get(name)
        bounds = {bound: known[bound] for bound in BOUNDS if bound in known} if isinstance(known, dict) else {}
        measured[name] = {"value": value, **bounds}
    return measured


def _intervals(ledger: Ledger, digest: str) -> dict[str, Any]:
    """Return an artifact's metrics.json; empty if it has none, or none that can be read, or was removed."""
    try:
        path = ledger.store.fetch(digest) / METRICS_FILE
        found = json.loads(path.read_bytes()) if path.is_file() else {}
    except (InputError, CorruptArtifact, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _leaves(params: Mapping[str, Any] | None) -> dict[str, Any]:
    return dict(flatten(params or {}))


def _differences(stage: str | None, a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    for name in dict.fromkeys([*a, *b]):
        if a.get(name, ABSENT) != b.get(name, ABSENT):
            yield {"stage": stage, "name": name, "a": a.get(name), "b": b.get(name)}
