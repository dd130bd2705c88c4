"""The steps that break things, on a cluster that behaves, and on clusters that do not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import faults, stopping
from tests.cluster.engines import kubeflow
from tests.cluster.outcome import Step, take
from tests.cluster.runner.kubectl_double import KubectlDouble, node
from tests.cluster.runner.stage_run import RUN, STAGE, StageRun, session_of
from tests.pipelines.engines.driver.drives import Killed
from tests.support.api_server.cluster import NAMESPACE
from tests.support.api_server.events import OWN, WELL

pytestmark = pytest.mark.usefixtures("toy_catalog")
DO = {
    "kubeflow": kubeflow,
    "pods": faults.pods,
    "driver": faults.driver,
    "drain": faults.drain,
    "quota": faults.quota,
    "delete": stopping.delete,
}


def result(
    folder: Path,
    name: str,
    prepare: Callable[[StageRun], None] = lambda run: None,
    kubectl: Callable[[KubectlDouble], None] = lambda kubectl: None,
) -> dict[str, Any]:
    """Take a step on a cluster that two functions make misbehave, and return the step's JSON."""
    with session_of(folder, prepare) as (session, _):
        kubectl(session.kubectl)
        take(Step(name, "", "", DO[name]), session, {"context": "kind-test"})
    return json.loads((folder / "out" / f"test-{name}.json").read_text())


@pytest.mark.parametrize("name", DO)
def test_a_step_passes_where_the_cluster_behaves(tmp_path: Path, name: str) -> None:
    told = result(tmp_path, name)
    assert (told["verdict"], told["wrong"]) == ("pass", [])
    assert told["run"] == RUN and told["stages"][STAGE]["cache"] == "miss"


def pod_beside(run: StageRun, phase: str, work: str = "train-beside") -> None:
    """Put a pod of the stage into the cluster that no driver knows."""
    labels = {"posttrain.dev/run": RUN, "posttrain.dev/stage": STAGE, "batch.kubernetes.io/job-name": work}
    metadata = {"name": f"{work}-0", "namespace": NAMESPACE, "labels": labels, "annotations": work}
    body = {"metadata": metadata, "spec": {"containers": [{"name": "stage"}]}, "status": {"phase": phase}}
    run.world.objects.create("pods", body)


def failure(told: dict[str, Any]) -> str:
    """Return what a step found wrong; it has failed, and its line says why."""
    assert told["verdict"] == "fail" and told["wrong"]
    assert told["wrong"][0] in told["said"]
    return "\n".join(told["wrong"])


@pytest.mark.parametrize("name", DO)
def test_a_step_fails_where_an_orphan_is_left(tmp_path: Path, name: str) -> None:
    told = failure(result(tmp_path, name, lambda run: setattr(run, "at_end", lambda: leave_pod(run))))
    assert "pod train-beside-0 is running" in told


def leave_pod(run: StageRun) -> None:
    """Leave a pod that nobody deletes, once."""
    run.at_end = lambda: None
    pod_beside(run, "Running")


@pytest.mark.parametrize("name", DO)
def test_a_step_fails_where_lineage_does_not_arrive(tmp_path: Path, name: str) -> None:
    told = failure(result(tmp_path, name, lambda run: setattr(run, "deliver", False)))
    assert "events of lineage are not delivered: no deliverer came" in told


def test_a_run_that_is_done_twice_is_found(tmp_path: Path) -> None:
    def twice(run: StageRun) -> None:
        run.world.steps = [WELL["runs"], lambda world: pod_beside(run, "Succeeded"), WELL["waits"]]

    told = failure(result(tmp_path, "kubeflow", twice))
    assert "train-beside ran, and no driver wrote it down" in told


def test_works_that_run_at_once_are_found(tmp_path: Path) -> None:
    def beside(run: StageRun) -> None:
        run.world.steps = [WELL["runs"], lambda world: pod_beside(run, "Running"), WELL["waits"], WELL["waits"]]
        run.at_end = lambda: run.world.objects.delete("pods", NAMESPACE, "train-beside-0")

    told = failure(result(tmp_path, "kubeflow", beside))
    assert "ran at once" in told and "train-beside" in told


def test_a_lease_that_nobody_renews_is_found_unless_its_driver_was_killed_on_purpose(tmp_path: Path) -> None:
    """Kubeflow takes long to start another driver; in the step `driver` that is as it should be."""

    def lost(run: StageRun) -> None:
        run.world.steps = [WELL["runs"], WELL["waits"], lambda world: setattr(run.turns, "end", Killed())]
        run.world.steps += [lambda world: setattr(world, "seconds", world.seconds + 20)] * 8

    told = failure(result(tmp_path / "a", "kubeflow", lost))
    assert "nobody renewed lease" in told
    many = [WELL["runs"], *[lambda world: setattr(world, "seconds", world.seconds + 20)] * 8]
    fine = result(tmp_path / "b", "driver", lambda run: setattr(run.world, "steps", many))
    assert fine["verdict"] == "pass"


def test_a_stage_that_is_not_tried_again_is_found(tmp_path: Path) -> None:
    def fails_for_good(run: StageRun) -> None:
        run.again = False
        run.world.steps = [WELL["runs"], WELL["waits"], *[OWN["fails"], WELL["runs"], WELL["waits"]] * 9]

    told = failure(result(tmp_path, "kubeflow", fails_for_good))
    assert "failed" in told and "the command ended with 1" in told and "has no entry in the ledger" in told


def test_a_drain_that_uses_up_retries_is_found(tmp_path: Path) -> None:
    told = failure(result(tmp_path, "drain", kubectl=lambda kubectl: setattr(kubectl, "drains", OWN["fails"])))
    assert "a drained node counts as failed, which uses up its retries" in told


def test_a_node_takes_pods_again_however_a_drain_ends(tmp_path: Path) -> None:
    seen: list[KubectlDouble] = []

    def forbid(kubectl: KubectlDouble) -> None:
        kubectl.forbids = {"drain"}
        seen.append(kubectl)

    assert "kubectl drain: as the test wants it" in failure(result(tmp_path, "drain", kubectl=forbid))
    words = [call[0] for call in seen[0].called]
    assert words[-1] == "uncordon" and words.count("cordon") == words.count("uncordon") == 1
    assert json.loads((tmp_path / "out" / "made.json").read_text()) == []


def test_a_drain_needs_a_second_node(tmp_path: Path) -> None:
    tainted = node("two", taints=[{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}])
    told = result(tmp_path, "drain", kubectl=lambda kubectl: setattr(kubectl, "nodes", [node("one"), tainted]))
    assert told["verdict"] == "left out" and "has 1 nodes that take pods" in told["said"]


def test_a_reason_that_nobody_sees_is_found(tmp_path: Path) -> None:
    told = failure(result(tmp_path, "quota", lambda run: setattr(run, "silent", True)))
    assert "the live view did not show why the stage waited: its namespace's quota is used up" in told
    assert json.loads((tmp_path / "out" / "made.json").read_text()) == []


def test_a_deleted_run_that_goes_on_is_found(tmp_path: Path) -> None:
    def deaf(run: StageRun) -> None:
        run.deaf = True
        run.world.steps = [WELL["runs"], *[WELL["waits"]] * 80]

    told = failure(result(tmp_path, "delete", deaf))
    assert "after the run was deleted: Job train-" in told and "has not ended" in told
    assert "after the run was deleted: the lease of stage 'train' is held by" in told


def test_missing_settings_leave_a_step_out(tmp_path: Path) -> None:
    with session_of(tmp_path) as (session, _):
        del session.environ["POSTTRAIN_IMAGE_CPU"]
        outcome = take(Step("kubeflow", "", "", kubeflow), session, {})
    assert outcome.verdict == "left out" and "POSTTRAIN_IMAGE_CPU is not set: name@sha256" in outcome.said
