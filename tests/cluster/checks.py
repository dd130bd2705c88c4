"""What must hold of a run on a cluster. Each check returns what does not, a line each; nothing if all is well."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations

from components.runtime.ledger.ledger import Ledger, RunRecord
from components.runtime.lineage.delivery.deliver import delivery_state
from components.runtime.store import Store
from pipelines.engines.driver.api import LEASES, PODS, Cluster
from pipelines.engines.driver.causes import Cause
from pipelines.engines.driver.kinds import KINDS
from pipelines.engines.driver.lease import DURATION_SECONDS, ROLE
from pipelines.engines.driver.names import STAGE_KEY, stage_key_of
from pipelines.engines.driver.record import read
from pipelines.engines.shared.container import label_value
from pipelines.engines.shared.pool_parts import RUN
from tests.cluster.sightings import Sighting, Sightings


def orphans(cluster: Cluster, namespace: str, run: RunRecord) -> list[str]:
    """Check that nothing of a run that has ended runs, waits for a node or holds a lease."""
    query = {"labelSelector": f"{RUN}={label_value(run.run_id)}"}
    left = []
    for kind in KINDS.values():
        works = cluster.list(kind.place, namespace, **query)
        left += [f"{kind.name} {_name(item)} has not ended" for item in works if not kind.state(item).ended]
    pods = cluster.list(PODS, namespace, **query)
    phases = {_name(pod): pod.get("status", {}).get("phase") or "Pending" for pod in pods}
    left += [f"pod {name} is {word.lower()}" for name, word in phases.items() if word not in ("Succeeded", "Failed")]
    keys = {stage_key_of(run.run_id, stage): stage for stage in run.stage_names}
    for lease in cluster.list(LEASES, namespace, labelSelector=f"{ROLE}=driver"):
        stage = keys.get(lease["metadata"].get("labels", {}).get(STAGE_KEY, ""))
        if stage and lease["spec"].get("holderIdentity"):
            left.append(f"the lease of stage {stage!r} is held by {lease['spec']['holderIdentity']}")
    return left


def double_work(seen: Sightings, store: Store, run: RunRecord) -> list[str]:
    """Check that no stage ran twice at once, and none ended well twice."""
    wrong = [f"stage {stage!r}: {', '.join(works)} ran at once" for stage, works in sorted(seen.at_once)]
    for stage in run.stage_names:
        works = seen.works(stage)
        well = sorted(name for name, pods in works.items() if any(pod.phase == "Succeeded" for pod in pods))
        if len(well) > 1:
            wrong.append(f"stage {stage!r} was done twice: by {', '.join(well)}")
        wrong += [f"stage {stage!r}: {text}" for text in _overlaps(works)]
        tries = read(store, run.run_id, stage).tries
        done = [one.name for one in tries if one.cause is Cause.DONE]
        if len(done) > 1:
            wrong.append(f"stage {stage!r}: its driver wrote down {len(done)} ends: {', '.join(done)}")
    return wrong


def ledger_truth(seen: Sightings, store: Store, run: RunRecord, *, driven: bool) -> list[str]:
    """Check that the ledger and the drivers' records have exactly what ran; `driven` says whether drivers ran it."""
    wrong = [f"stage {stage!r}: its record is damaged: {text}" for stage, text in run.damaged.items()]
    if run.status != "succeeded":
        told = "; ".join(f"{stage}: {error}" for stage, error in run.failed.items())
        wrong.append(f"run {run.run_id}: {run.status}{f' ({told})' if told else ''}")
    wrong += [f"stage {stage!r} has no entry in the ledger" for stage in run.stage_names if stage not in run.stages]
    for stage, entry in run.stages.items():
        wrong += [f"stage {stage!r}: {text}" for text in _of_stage(seen, store, entry, driven=driven)]
    return wrong


def _of_stage(seen: Sightings, store: Store, entry: dict, *, driven: bool) -> Iterator[str]:
    works = seen.works(entry["stage"])
    well = [name for name, pods in works.items() if any(pod.phase == "Succeeded" for pod in pods)]
    elsewhere = entry.get("produced_by", {}).get("run_id") != seen.run_id  # a stage like it may have come first
    if well and entry["cache"] != "miss" and elsewhere:
        yield f"the ledger says it was not run (cache: {entry['cache']}), and {', '.join(well)} ended well"
    for port, output in entry["outputs"].items():
        if not store.has(output["digest"]):
            yield f"its output {port} ({output['digest']}) is not in the store"
    if not driven:
        return
    tries = read(store, seen.run_id, entry["stage"]).tries
    unknown = works.keys() - {one.name for one in tries}
    if unknown:
        yield f"{', '.join(sorted(unknown))} ran, and no driver wrote it down"
    if entry["cache"] == "miss" and (not tries or tries[-1].cause is not Cause.DONE):
        yield "the ledger says it ran, and its driver's last try says otherwise"


def silent_leases(seen: Sightings) -> list[str]:
    """Check that no lease went without renewal while pods of its stage ran, but those of drivers that were killed."""
    return [
        f"nobody renewed lease {key} of {silence.holder or 'nobody'} for {silence.longest:.0f} s while pods ran"
        for key, silence in seen.leases.items()
        if silence.longest > DURATION_SECONDS and key not in seen.excused
    ]


def lineage_missing(store: Store, run_id: str, tracking_uri: str) -> list[str]:
    """Check that MLflow has all of a run, by the cursor that its deliverer keeps in the store."""
    state = delivery_state(store, run_id, tracking_uri)
    wrong = [f"MLflow refuses {key}: {reason}" for key, reason in state.refused.items()]
    if state.pending or not store.get(f"ledger/{run_id}/run.json"):
        wrong.append(f"{state.pending} events of lineage are not delivered: {state.problem or 'no deliverer came'}")
    return wrong


def settled(check: Callable[[], list[str]], sleep: Callable[[float], None], seconds: float, every: float) -> list[str]:
    """Return what a check finds once it finds nothing, or after so many seconds: what is on its way may arrive."""
    wrong = check()
    while wrong and seconds > 0:
        sleep(every)
        seconds -= every
        wrong = check()
    return wrong


def record_of(store: Store, run_id: str) -> RunRecord:
    """Return what the ledger has of a run now."""
    return Ledger(store).run(run_id)


def _overlaps(works: dict[str, list[Sighting]]) -> Iterator[str]:
    """Yield works whose containers ran at the same time by the nodes' clocks, between two looks."""
    spans = {}
    for name, pods in works.items():
        known = [(pod.began, pod.ended) for pod in pods if pod.began is not None and pod.ended is not None]
        if known:
            spans[name] = (min(began for began, _ in known), max(ended for _, ended in known))
    for (one, first), (other, second) in combinations(sorted(spans.items()), 2):
        if max(first[0], second[0]) < min(first[1], second[1]):
            yield f"{one} and {other} ran at once"


def _name(item: dict) -> str:
    return item["metadata"]["name"]
