"""The command itself: which cluster it takes, what it takes again, what it writes, and what it removes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from components.contract.errors import InputError
from pipelines.engines.driver.api import PODS, Cluster
from tests.cluster.__main__ import chosen_steps
from tests.cluster.install import OVERLAYS, _with_image, built
from tests.cluster.kubectl import Kubectl
from tests.cluster.made import MARK, Made
from tests.cluster.outcome import Result, Step, clean, passed, take, write_report
from tests.cluster.runner.kubectl_double import KubectlDouble
from tests.cluster.runner.stage_run import session_of
from tests.cluster.session import LeftOut, Session
from tests.cluster.steps import STEPS
from tests.support.api_server.cluster import SimulatedCluster
from tests.support.api_server.server import served

ROOT = Path(__file__).parents[3]
NOTE = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "note", "namespace": "posttrain"}}
needs_kubectl = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")


def command(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    config = {"apiVersion": "v1", "kind": "Config", "current-context": "production"}
    config |= {"contexts": [{"name": "production", "context": {"cluster": "x", "user": "x"}}]}
    (folder / "config").write_text(json.dumps(config))
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "KUBECONFIG": str(folder / "config")}
    started = [sys.executable, "-m", "tests.cluster", "--folder", str(folder / "out"), *words]
    return subprocess.run(started, env=environment, cwd=ROOT, capture_output=True, text=True)


@needs_kubectl
@pytest.mark.parametrize("words", [(), ("--context", ""), ("--context", "kind-x")])
def test_no_cluster_is_touched_that_is_not_named_even_the_current_one(tmp_path: Path, words: tuple[str, ...]) -> None:
    refused = command(tmp_path, *words)
    assert refused.returncode == 2 and "CONTEXT=NAME (known: production)" in refused.stderr
    assert "Traceback" not in refused.stderr and not (tmp_path / "out").exists()


@needs_kubectl
def test_a_cluster_that_does_not_answer_is_one_line(tmp_path: Path) -> None:
    refused = command(tmp_path, "--context", "production", "look")
    assert refused.returncode != 0 and "Traceback" not in refused.stderr and "kubectl" in refused.stderr


@needs_kubectl
def test_the_api_server_is_reached_by_kubectls_own_login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = SimulatedCluster(lambda: True)
    pod = {"metadata": {"name": "p", "namespace": "posttrain", "labels": {}}, "status": {"phase": "Running"}}
    world.objects.create("pods", pod)
    with served(world) as url:
        config = {"apiVersion": "v1", "kind": "Config", "clusters": [{"name": "x", "cluster": {"server": url}}]}
        config |= {"contexts": [{"name": "kind-x", "context": {"cluster": "x", "user": "x"}}]}
        config |= {"users": [{"name": "x", "user": {}}]}
        (tmp_path / "config").write_text(json.dumps(config))
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
        with Kubectl.of("kind-x").proxy() as address:
            assert address != url
            assert [item["metadata"]["name"] for item in Cluster(address).list(PODS, "posttrain")] == ["p"]
            found = Cluster(address).get(PODS, "posttrain", "p")
            assert found is not None
            Cluster(address).delete(PODS, found)
        assert world.objects.list("pods", "posttrain") == []


def test_without_kubectl_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(InputError, match="kubectl is not installed"):
        Kubectl.of("kind-x")


def test_steps_are_chosen_by_name_and_clean_only_so() -> None:
    assert [step.name for step in chosen_steps([])] == [step.name for step in STEPS if step.name != "clean"]
    assert [step.name for step in chosen_steps(["quota", "clean", "pods"])] == ["pods", "quota", "clean"]
    with pytest.raises(SystemExit, match="drane: no such step"):
        chosen_steps(["drane"])


def test_results_are_kept_by_step_and_told_in_one_report(tmp_path: Path) -> None:
    steps = [
        Step("fine", "what a", "b holds", lambda session: Result("all | well")),
        Step("bad", "what c", "d holds", lambda session: Result("x", ["an orphan\x1b[31m", "password=hunter2 leaked"])),
        Step("not", "what e", "f holds", lambda session: leave_out()),
        Step("later", "what g", "h holds", lambda session: Result("")),
    ]
    with session_of(tmp_path) as (session, _):
        seeds = {name: session.seed(name) for name in ("fine", "bad")}
        outcomes = [take(step, session, {"context": "kind-x"}) for step in steps[:3]]
        assert [one.verdict for one in outcomes] == ["pass", "fail", "left out"]
        assert [one.is_bad for one in outcomes] == [False, True, False]
        assert passed(session.folder, "fine") and not passed(session.folder, "bad")
        assert session.seed("fine") == seeds["fine"] and session.seed("bad") != seeds["bad"], "what failed runs anew"
        text = write_report(session.folder, steps).read_text()
    assert "| fine | pass | 0 | what a | all / well |" in text and "| later | not run |" in text
    assert "| not | left out | 0 | what e | one node |" in text and "## bad: what did not hold" in text
    assert "\x1b" not in text and "hunter2" not in text
    told = json.loads((tmp_path / "out" / "test-bad.json").read_text())
    assert (told["context"], told["must_hold"], len(told["wrong"])) == ("kind-x", "d holds", 2)


def test_a_step_that_breaks_is_a_step_that_failed(tmp_path: Path) -> None:
    with session_of(tmp_path) as (session, _):
        outcome = take(Step("broken", "", "", lambda session: {}["no such key"]), session, {})
    told = json.loads((tmp_path / "out" / "test-broken.json").read_text())
    assert outcome.is_bad and told["said"] == "KeyError: 'no such key'" and "KeyError" in told["traceback"][-1]


def leave_out() -> Result:
    raise LeftOut("one node")


def test_tokens_stay_out_of_what_is_passed_on() -> None:
    assert clean("HTTP 401: Bearer abc.def.ghi is over") == "HTTP 401: Bearer *** is over"


@needs_kubectl
@pytest.mark.parametrize("folder", ["local", "local/kubeflow", "local/airflow"])
def test_what_would_be_installed_needs_no_image_of_this_machine(tmp_path: Path, folder: str) -> None:
    image = f"registry.example/cpu@sha256:{'1' * 64}"
    session = Session(Kubectl("x"), Cluster("http://nobody"), tmp_path, {"POSTTRAIN_IMAGE_CPU": image})
    objects = built(session, str(OVERLAYS / folder))
    assert objects and "localhost/" not in str(objects)
    assert (image in str(objects)) is (folder == "local")


def made_in(tmp_path: Path) -> tuple[Made, KubectlDouble]:
    kubectl = KubectlDouble("kind-x", SimulatedCluster(lambda: True), lambda: None)
    return Made(kubectl, tmp_path / "made.json"), kubectl  # type: ignore[arg-type]


def test_what_exists_is_left_and_only_what_was_made_is_removed(tmp_path: Path) -> None:
    made, kubectl = made_in(tmp_path)
    theirs = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "theirs", "namespace": "posttrain"}}
    kubectl.objects["Secret/theirs"] = theirs
    assert made.create(NOTE) and not made.create(theirs)
    assert kubectl.objects["ConfigMap/note"]["metadata"]["labels"] == {MARK[0]: MARK[1]}
    assert made.undo_all() == (["ConfigMap note"], []) and made.entries() == []
    assert kubectl.objects == {"Secret/theirs": theirs}


def test_what_somebody_else_made_anew_is_left(tmp_path: Path) -> None:
    made, kubectl = made_in(tmp_path)
    made.create(NOTE)
    kubectl.objects["ConfigMap/note"] = {"metadata": {"name": "note"}}
    gone, kept = made.undo_all()
    assert gone == [] and "somebody else made it anew" in kept[0]
    assert "ConfigMap/note" in kubectl.objects


def test_what_a_stopped_step_left_is_undone_by_the_next(tmp_path: Path) -> None:
    made, kubectl = made_in(tmp_path)
    made.create(NOTE, temporary=True)
    with pytest.raises(KeyboardInterrupt), made.cordoned("one"):
        raise KeyboardInterrupt
    assert Made(made.kubectl, made.path).undo_temporary() == ["note"]
    assert kubectl.objects == {} and ("uncordon", "one") in kubectl.called


def test_only_our_own_image_is_replaced() -> None:
    image = f"registry.example/cpu@sha256:{'1' * 64}"
    containers: list[dict[str, Any]] = [{"image": "localhost/posttrain-cpu:latest"}, {"image": "posttrain-cpu"}]
    containers += [{"image": "docker.io/library/postgres:16"}, {"image": "x.io/other-posttrain-cpu"}]
    found = _with_image({"spec": {"containers": containers}}, image)["spec"]["containers"]
    assert [item["image"] for item in found] == [image, image, containers[2]["image"], containers[3]["image"]]
