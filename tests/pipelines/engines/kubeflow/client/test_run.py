"""`posttrain run --engine kubeflow`: kfp's own client against a server that speaks Kubeflow's API."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from components.contract.errors import InputError, PosttrainError
from components.contract.job import Job
from components.runtime.job.asking import Question
from components.runtime.job.launch import Launch
from components.runtime.job.progress import text_lines
from components.runtime.ledger.records import approval_key, stage_entry, stage_key
from components.runtime.store import Store, open_store
from pipelines.engines.kubeflow.client.account import Account
from pipelines.engines.kubeflow.client.api import Client
from pipelines.engines.kubeflow.client.rest import KubeflowUnavailable, NotFound, NotNow, Refused
from pipelines.engines.kubeflow.client.run import KubeflowRun
from pipelines.engines.kubeflow.names import run_key
from pipelines.engines.shared import follower as follower_module
from pipelines.engines.shared.approvals import Decision, decide
from pipelines.engines.shared.follower import Follower
from pipelines.plan.plan import Plan, build_plan
from pipelines.recipe.recipe import load_recipe
from pipelines.runs.runs import begin_run
from tests.pipelines.engines.kubeflow.examples import FOLDER, POOLS, compiled
from tests.support.kubeflow_api import KubeflowApi, ServedRun, kubeflow_api

CHOICES = FOLDER / "recipes" / "choices.yaml"


@pytest.fixture(autouse=True)
def where(toy_catalog: None, cluster: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The toy components and pools of every kind."""
    (tmp_path / "pools.yaml").write_text(POOLS)
    monkeypatch.setenv("POSTTRAIN_POOLS", str(tmp_path / "pools.yaml"))


@pytest.fixture
def api(tmp_path: Path) -> Iterator[KubeflowApi]:
    """A Kubeflow without runs."""
    with kubeflow_api(tmp_path / "pods") as served:
        yield served


class View:
    """Keeps what it is told, and answers as the test wants; `hook` is called with each event."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []
        self.answer: bool | None = None
        self.hook = lambda event: None

    def event(self, event: dict[str, Any]) -> None:
        self.told.append((event["stage"], event["event"]))
        self.hook(event)

    def ask(self, job: Job) -> bool | None:
        return self.answer


class Followed:
    """A run that was submitted, and what a cluster would do to it."""

    def __init__(self, api: KubeflowApi, folder: Path) -> None:
        self.store: Store = open_store(str(folder / "store"))
        self.client = Client(Account(api.url, token="a-token"))
        arguments = {"posttrain_store": self.store.uri}
        self.id = self.client.submit(compiled(CHOICES), arguments, name="one", experiment="choices")
        self.served: ServedRun = api.runs[self.id]
        plan = build_plan(load_recipe(str(CHOICES)), self.store.uri, "asked-for")
        self.plan: Plan = plan.with_run_id("choices-1")
        self.view = View()
        self.follow_plan(plan)

    def follow_plan(self, plan: Plan) -> None:
        """Follow the run as one of `plan`."""
        submitted = KubeflowRun(plan.jobs, self.store, self.client, self.id)
        self.follower = Follower(submitted, plan, self.store, self.view, poll_seconds=0.02)

    def begin(self) -> None:
        """Do what the first task does."""
        begin_run(self.store, self.plan, engine="kubeflow", kubeflow={"run_id": self.id})
        self.store.put(run_key(self.id), {"run_id": "choices-1"})
        self.served.state = "RUNNING"

    def do(self, stage: str) -> None:
        """Do a stage."""
        job = next(job for job in self.plan.jobs if job.stage == stage)
        entry = stage_entry(
            job, status="done", cache="miss", started=0.0, ended=1.0, inputs={}, metrics={"pass_at_1": 0.5}
        )
        self.store.put(stage_key("choices-1", stage), entry)

    def interrupt(self, event: dict[str, Any]) -> None:
        """Press Ctrl-C, once."""
        self.view.hook = lambda event: None
        raise KeyboardInterrupt

    def fail(self, stage: str, error: str) -> None:
        """Let an attempt at a stage fail."""
        job = next(job for job in self.plan.jobs if job.stage == stage)
        Launch(job, text_lines(), store=self.store).record_death(error)


@pytest.fixture
def run(api: KubeflowApi, tmp_path: Path) -> Followed:
    """A run of a recipe with a question, submitted."""
    return Followed(api, tmp_path)


def test_what_is_submitted_is_the_pipeline_with_its_platform(api: KubeflowApi, run: Followed) -> None:
    spec = run.served.body["pipeline_spec"]
    assert set(spec) == {"pipeline_spec", "platform_spec"}
    assert run.served.body["runtime_config"]["parameters"] == {"posttrain_store": run.store.uri}
    assert api.experiments == {"choices": "experiment-0"}
    assert "Bearer a-token" in api.tokens


@pytest.mark.parametrize(
    ("state", "status"),
    [("SUCCEEDED", "succeeded"), ("FAILED", "failed"), ("CANCELED", "stopped"), ("ERROR", "failed")],
)
def test_following_ends_with_every_state_that_kubeflow_ends_in(run: Followed, state: str, status: str) -> None:
    run.begin()
    if state == "SUCCEEDED":
        for job in run.plan.jobs:
            run.do(job.stage)
    else:
        run.do("base")
    run.served.state = state
    assert run.follower.follow() == ("choices-1", status)
    assert run.store.get("ledger/choices-1/end.json")["status"] == status
    assert ("base", "finished") in run.view.told


def test_a_run_that_waits_for_a_person_who_is_not_here_ends_the_following_only(run: Followed) -> None:
    run.begin()
    run.do("base")
    assert decide(Question(run.plan.jobs[1], {}), run.store, lambda job: None) is Decision.WAITING
    assert run.follower.follow() == ("choices-1", "waiting")
    assert run.served.verbs == []
    assert run.view.told[-1] == ("scored", "approval")


def test_a_person_who_is_here_is_asked_once_and_the_answer_is_in_the_store(run: Followed) -> None:
    run.begin()
    run.do("base")
    decide(Question(run.plan.jobs[1], {}), run.store, lambda job: None)
    run.view.answer = True
    original = run.client.state

    def state(kubeflow_run: str) -> Any:
        if run.store.get(approval_key("choices-1", "scored")):  # now the cluster goes on
            run.do("scored")
            run.do("again")
            run.served.state = "SUCCEEDED"
        return original(kubeflow_run)

    run.client.state = state
    assert run.follower.follow() == ("choices-1", "succeeded")


def test_failures_are_told_as_retries_while_attempts_are_left(run: Followed) -> None:
    run.begin()
    run.fail("base", "the disk fell off")
    events: list[dict[str, Any]] = []
    run.view.hook = lambda event: (events.append(event), setattr(run.served, "state", "FAILED"))
    job = run.plan.jobs[0].model_copy(update={"retry": run.plan.jobs[0].retry.model_copy(update={"retries": 2})})
    run.follow_plan(replace(run.plan, jobs=(job, *run.plan.jobs[1:])))
    assert run.follower.follow() == ("choices-1", "failed")
    assert [(event["event"], event.get("attempt")) for event in events if event["stage"] == "base"] == [
        ("retry", 1),
        ("failed", None),
    ]
    assert ("again", "blocked") in run.view.told


def test_ctrl_c_stops_the_run_and_waits_for_its_end(run: Followed) -> None:
    run.begin()
    run.do("base")

    run.view.hook = run.interrupt
    run.served.on_terminate = "CANCELED"
    assert run.follower.follow() == ("choices-1", "stopped")
    assert run.served.verbs == ["terminate"]


def test_a_run_that_does_not_stop_is_left_with_its_address(run: Followed, monkeypatch: pytest.MonkeyPatch) -> None:
    run.begin()
    run.served.on_terminate = "CANCELING"
    monkeypatch.setattr(follower_module, "STOP_SECONDS", 0.1)
    run.served.running = ["base"]

    run.view.hook = run.interrupt
    with pytest.raises(PosttrainError, match=r"asked to stop, but has not: http://.*/#/runs/details/"):
        run.follower.follow()


def test_what_the_first_task_refused_is_the_command_s_error(run: Followed) -> None:
    run.store.put(run_key(run.id), {"refused": "numbers.yaml:3: no"})
    with pytest.raises(InputError, match=r"numbers\.yaml:3: no"):
        run.follower.follow()


def test_a_run_that_ends_before_it_begins_says_what_kubeflow_says(run: Followed) -> None:
    run.served.state, run.served.error = "FAILED", "ImagePullBackOff"
    with pytest.raises(PosttrainError, match=r"is FAILED before its first task wrote anything to .*ImagePullBackOff"):
        run.follower.follow()


def test_a_kubeflow_that_is_away_for_a_moment_is_waited_for(api: KubeflowApi, run: Followed) -> None:
    run.begin()
    for job in run.plan.jobs:
        run.do(job.stage)
    run.served.state = "SUCCEEDED"
    api.broken += [503, 502]
    assert run.follower.follow() == ("choices-1", "succeeded")


def test_a_login_that_is_refused_ends_the_following_at_once_and_the_run_goes_on(run: Followed) -> None:
    run.begin()
    original, asked = run.client.state, []

    def state(kubeflow_run: str) -> Any:
        asked.append(kubeflow_run)
        if len(asked) > 2:
            raise Refused("Kubeflow at http://k refuses the login: HTTP 401: expired")
        return original(kubeflow_run)

    run.client.state = state
    with pytest.raises(
        Refused, match=r"HTTP 401: expired; the run goes on, and the same command follows it again: http"
    ):
        run.follower.follow()
    assert len(asked) == 3 and run.served.verbs == []


def test_a_kubeflow_that_stays_away_ends_the_following(
    api: KubeflowApi, run: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower_module, "AWAY_SECONDS", 0.05)
    api.broken += [503] * 50
    with pytest.raises(KubeflowUnavailable, match="HTTP 503"):
        run.follower.follow()


def test_terminate_retry_and_not_found(run: Followed) -> None:
    run.served.state = "RUNNING"
    with pytest.raises(NotNow, match="only a run that failed can be retried"):
        run.client.retry(run.id)
    run.client.terminate(run.id)
    assert run.client.state(run.id).state == "CANCELED"
    run.client.retry(run.id)
    assert run.client.state(run.id).state == "RUNNING"
    for action in (run.client.state, run.client.terminate, run.client.retry):
        with pytest.raises(NotFound, match="HTTP 404"):
            action("00000000-0000-0000-0000-00000000dead")


def test_unknown_parameters_are_refused_before_anything_is_sent(api: KubeflowApi, run: Followed) -> None:
    with pytest.raises(InputError, match="unknown parameter 'bogus'"):
        run.client.submit(compiled(CHOICES), {"bogus": 1, "posttrain_store": "s3://b/s"}, name="x", experiment="x")
    assert len(api.runs) == 1 and "x" not in api.experiments


def test_an_address_without_kubeflow_is_said_at_once() -> None:
    with pytest.raises(KubeflowUnavailable, match=r"Kubeflow at http://127\.0\.0\.1:9 does not answer"):
        Client(Account("http://127.0.0.1:9", namespace="me")).state("x")
