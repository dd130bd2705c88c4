"""Steps: pods are killed, a node is drained, a quota is full. The run must go on, and nothing be done twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from components.contract.errors import PosttrainError
from pipelines.engines.driver.api import PODS
from pipelines.engines.driver.causes import DISRUPTIONS, Cause
from pipelines.engines.driver.names import stage_key_of
from pipelines.engines.driver.record import read
from pipelines.engines.driver.waiting import waiting as driver_waits
from pipelines.engines.shared.container import label_value
from pipelines.engines.shared.pool_parts import RUN
from tests.cluster.act import RUN_SECONDS, Act, Wrong
from tests.cluster.checks import record_of
from tests.cluster.engines import need_engine, told
from tests.cluster.made import Made
from tests.cluster.outcome import Result
from tests.cluster.session import KUBEFLOW, LeftOut, Session
from tests.cluster.sightings import Sighting

QUOTA = "test-cluster-full"
USED_UP = "quota is used up"
"""What the live view says of it."""
DRAIN_SECONDS = 300
TOO_SHORT = "no stage ran long enough to be hit"


@contextmanager
def act_of(session: Session, engine: str, step: str) -> Iterator[Act]:
    """Yield a run that has begun; its command is ended with the step."""
    need_engine(session, engine)
    act = Act.begin(session, engine, step)
    try:
        yield act
    except LeftOut:
        act.stop()
        raise
    finally:
        act.leave()


def made_of(session: Session) -> Made:
    """Return the list of what was made in this cluster."""
    return Made(session.kubectl, session.folder / "made.json")


def pods(session: Session) -> Result:
    """Delete the pod of a stage of a run on Kubeflow."""
    return struck(session, "kubeflow", "pods", lambda name, one: delete_pod(session, session.namespace, name))


def airflow_pods(session: Session) -> Result:
    """Delete the pod of a stage of a run on Airflow."""
    return struck(session, "airflow", "airflow-pods", lambda name, one: delete_pod(session, session.namespace, name))


def drain(session: Session) -> Result:
    """Drain the node of a stage: only pods of this run leave it."""
    ready = [item for item in session.kubectl.items("nodes") if can_take_pods(item)]
    if len(ready) < 2:
        raise LeftOut(f"the cluster has {len(ready)} nodes that take pods; a drained one needs another to go to")
    made = made_of(session)

    def strike(name: str, one: Sighting) -> None:
        mine = f"--pod-selector={RUN}={label_value(run_of(session, name))}"
        flags = ("--delete-emptydir-data", "--force", "--ignore-daemonsets", f"--timeout={DRAIN_SECONDS}s")
        with made.cordoned(one.node):
            session.kubectl.said("drain", one.node, mine, *flags, timeout=DRAIN_SECONDS + 30)

    return struck(session, "kubeflow", "drain", strike, disruption=True)


def struck(
    session: Session, engine: str, step: str, strike: Callable[[str, Sighting], None], *, disruption: bool = False
) -> Result:
    """Run quickstart, strike a pod of it, and check that its stage was tried again, once."""
    with act_of(session, engine, step) as act:
        hit = act.hit(strike)
        act.end()
    if hit is None:
        raise LeftOut(f"run {act.run_id}: {TOO_SHORT}")
    wrong = []
    if others := sorted(act.seen.works(hit.stage).keys() - {hit.work}):
        said = f"stage {hit.stage!r}: {hit.work} was hit, {', '.join(others)} came after it"
    else:
        said, wrong = "", [f"stage {hit.stage!r}: {hit.work} was hit, and nothing was seen to run again"]
    tries = [one for one in read(session.store, act.run_id, hit.stage).tries if one.name == hit.work]
    if disruption and tries and tries[0].cause not in DISRUPTIONS:
        wrong.append(f"stage {hit.stage!r}: a drained node counts as {tries[0].cause}, which uses up its retries")
    return told(act, wrong, said)


def driver(session: Session) -> Result:
    """Kill the driver of a stage, at once: another one must go on with the same work."""
    with act_of(session, "kubeflow", "driver") as act:
        chosen = act.until(lambda: next(iter(act.seen.running().values()), None), RUN_SECONDS, "a pod that runs")
        if chosen is None:
            raise LeftOut(f"run {act.run_id}: {TOO_SHORT}")
        key = stage_key_of(act.run_id, chosen.stage)
        holder = act.seen.holders.get(key, [""])[-1]
        if not holder:
            raise Wrong(f"stage {chosen.stage!r}: its pod runs, and nobody holds its lease")
        act.seen.excused.add(key)
        delete_pod(session, KUBEFLOW, pod_of(holder), at_once=True)
        act.end()
    tries = read(session.store, act.run_id, chosen.stage).tries
    own = [one for one in tries[:-1] if one.cause is not Cause.STOPPED]  # it may have had a moment to free its node
    wrong = [
        f"stage {chosen.stage!r}: {one.name} ended ({one.cause}), though only its driver was killed" for one in own
    ]
    after = [name for name in act.seen.holders.get(key, []) if name != holder]
    said = f"stage {chosen.stage!r}: {pod_of(holder)} was killed, {pod_of(after[-1]) if after else 'nobody'} came after"
    return told(act, wrong, said)


def quota(session: Session) -> Result:
    """Let the namespace take no further pod: the run waits, says why, and goes on when there is room."""
    metadata = {"name": QUOTA, "namespace": session.namespace}
    full = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": {"pods": "0"}}}
    made = made_of(session)
    with act_of(session, "kubeflow", "quota") as act:
        with made.for_a_while(full):
            reason = act.until(lambda: waiting(act, "quota"), RUN_SECONDS, "a stage that waits for its quota")
            shown = act.shows(USED_UP) if reason else False
        act.end()
    if not reason:
        return told(act, ["nothing told that a stage waits for its quota"])
    wrong = [] if shown else [f"the live view did not show why the stage waited: {reason}"]
    return told(act, wrong, f"told while it waited: {reason}")


def waiting(act: Act, word: str) -> str | None:
    """Return why a stage waits, where the reason has a word in it, by the record that the live view shows."""
    run = record_of(act.session.store, act.run_id)
    reasons = (driver_waits(act.session.store, act.run_id, stage).text for stage in run.stage_names)
    return next((reason for reason in reasons if word in reason), None)


def delete_pod(session: Session, namespace: str, name: str, *, at_once: bool = False) -> None:
    """Delete a pod that may have ended meanwhile; `at_once` gives it no time to end by itself."""
    found = session.cluster.get(PODS, namespace, name)
    if found is None:
        if at_once:
            raise LeftOut(f"pod {name} is not in {namespace}: where do the drivers run?")
        return
    if not at_once:
        session.cluster.delete(PODS, found)
        return
    try:
        session.kubectl.said("-n", namespace, "delete", "pod", name, "--grace-period=0", "--force")
    except PosttrainError as error:
        raise LeftOut(f"its driver cannot be killed: {error}") from None


def pod_of(holder: str) -> str:
    """Return the pod of a lease's holder: host, process and some digits."""
    return holder.rsplit("-", 2)[0]


def run_of(session: Session, pod: str) -> str:
    """Return the run that a pod is of."""
    found = session.cluster.get(PODS, session.namespace, pod)
    return found["metadata"]["labels"][RUN] if found else "none"


def can_take_pods(node: dict) -> bool:
    """Return whether a node is ready and takes pods without a toleration."""
    spec = node.get("spec", {})
    ready = any(item["type"] == "Ready" and item["status"] == "True" for item in node["status"].get("conditions", ()))
    closed = any(taint["effect"] in ("NoSchedule", "NoExecute") for taint in spec.get("taints") or ())
    return ready and not closed and not spec.get("unschedulable")
