"""The statement of a removal: an in-toto statement of what was removed, what ran again, and the digests on both sides.

Its subjects are the artifacts that were made anew. An artifact's digest is the SHA-256 of its manifest.json in the
store, which names every file with its own SHA-256, so that sha256sum alone checks a subject and all that is in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from components.runtime.ledger.ledger import Ledger
from components.runtime.system.code import code_version
from pipelines.provenance.envelope import STATEMENT_TYPE
from pipelines.provenance.leftovers import find_leftovers
from pipelines.provenance.uses import sources_in
from pipelines.recipe.sources import named_sources, plain_source

if TYPE_CHECKING:
    from components.runtime.ledger.ledger import RunRecord
    from components.runtime.store import Store
    from pipelines.provenance.reach import Reach

PREDICATE_TYPE = "urn:posttrain:removal:v1"


def removal_statement(
    store: Store, before: RunRecord, after: RunRecord, reach: Reach, names: Sequence[str]
) -> dict[str, Any]:
    """Return the statement on a run that was made again without the named sources."""
    ledger = Ledger(store)
    gone = {stage: _gone(before, after, stage) for stage in reach.reading}
    left = find_leftovers(store, before, after, gone)
    stages = [_stage(before, after, name, name in reach.depending) for name in after.stage_names]
    rebuilt = {stage["name"] for stage in stages if stage["result"] == "rebuilt"}
    return {
        "_type": STATEMENT_TYPE,
        "subject": [
            {"name": f"{after.run_id}:{name}.{port}", "digest": {"sha256": output["digest"]}}
            for name in after.stage_names
            if name in rebuilt
            for port, output in after.stages[name]["outputs"].items()
        ],
        "predicateType": PREDICATE_TYPE,
        "predicate": {
            "removed": list(_removed(ledger, before, gone)),
            "asked": [plain_source(name) for name in names],
            "runs": {"before": _run(before), "after": _run(after)},
            "stages": stages,
            "rows": {
                "removed": left.removed,
                "unclear": left.unclear,
                "remaining": dict(sorted(left.remaining.items())),
                "unread": left.unread,
            },
            "materials": [use for name in after.stage_names for use in _materials(ledger, after, name)],
            "builder": {"id": "posttrain", "code": code_version()},
        },
    }


def _gone(before: RunRecord, after: RunRecord, stage: str) -> list[int]:
    """Return the positions of the sources that a stage no longer has: what is left kept its order."""
    left = [(source.place, source.domain, source.names) for source in named_sources(after.stages[stage]["params"])]
    gone = []
    for source in named_sources(before.stages[stage]["params"]):
        if left and left[0] == (source.place, source.domain, source.names):
            left.pop(0)
        else:
            gone.append(source.position)
    return gone


def _removed(ledger: Ledger, before: RunRecord, gone: Mapping[str, Sequence[int]]) -> Iterator[dict[str, Any]]:
    for stage, positions in gone.items():
        for use in sources_in(ledger, before.stages[stage]):
            if not use.port and use.source.position in positions:
                yield _material(use.to_json()) | {"drawn": use.drawn, "kept": use.kept}


def _materials(ledger: Ledger, run: RunRecord, stage: str) -> Iterator[dict[str, Any]]:
    entry = run.stages.get(stage)
    for use in sources_in(ledger, entry) if entry else ():
        yield _material(use.to_json())


def _material(use: Mapping[str, Any]) -> dict[str, Any]:
    kept = ("stage", "source", "domain", "input", "license", "revision", "sha256")
    return {name: use[name] for name in kept if use[name] is not None or name == "license"}


def _run(run: RunRecord) -> dict[str, Any]:
    end = run.end or {}
    kept = ("recipe", "recipe_digest", "plan_digest", "overrides", "started")
    return {"id": run.run_id, **{name: run.entry.get(name) for name in kept}, "ended": end.get("ended")}


def _stage(before: RunRecord, after: RunRecord, name: str, depends: bool) -> dict[str, Any]:
    earlier, now = before.stages.get(name, {}), after.stages.get(name, {})
    old, new = earlier.get("outputs", {}), now.get("outputs", {})
    return {
        "name": name,
        "component": now.get("component"),
        "depends": depends,
        "result": _result(earlier, now),
        "fingerprint": {"before": earlier.get("fingerprint"), "after": now.get("fingerprint")},
        "outputs": {
            port: {
                "type": (new.get(port) or old[port])["type"],
                "before": old.get(port, {}).get("digest"),
                "after": new.get(port, {}).get("digest"),
            }
            for port in dict.fromkeys([*old, *new])
        },
    }


def _result(earlier: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Return "rebuilt" for work that the earlier run does not have, "reused" for the same work, "skipped" for none."""
    if now.get("status") != "done":
        return "skipped"
    return "reused" if now["fingerprint"] == earlier.get("fingerprint") else "rebuilt"
