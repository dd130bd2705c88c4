"""The follower on Airflow's port, against a server that speaks Airflow's REST interface; on Kubeflow's: kubeflow/."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from components.contract.errors import InputError, StoreUnavailable
from components.contract.job import Job
from components.runtime.job.launch import Launch
from components.runtime.job.progress import text_lines
from components.runtime.ledger.records import end_key, stage_entry, stage_key
from components.runtime.store import Store, open_store
from pipelines.engines.airflow.client import Account, AirflowUnavailable, Client
from pipelines.engines.airflow.run import AirflowRun, run_path
from pipelines.engines.shared import follower as follower_module
from pipelines.engines.shared.follower import Follower
from pipelines.plan.plan import build_plan
from pipelines.runs.runs import begin_run
from tests.pipelines.writing import load
from tests.support.airflow_api import AirflowApi, airflow_api

pytestmark = pytest.mark.usefixtures("toy_catalog")
RECIPE = """
stages:
  base: {uses: pretrain, with: {layers: 1}, retries: 1, backoff: 7}
  other: {uses: curate}
  asked: {uses: sft, in: {model: base.model, dataset: other.dataset}, approve: {message: "Go on?"}}
  last: {uses: evaluate, in: {model: asked.model, dataset: other.dataset}}
"""
STARTED = {"dag_run_id": "manual__1", "run_after": "2026-01-02T03:04:05+00:00"}
PATH = run_path("dag", "manual__1")


class Followed:
    """A run in Airflow: what its tasks do, what the view hears."""

    def __init__(self, api: AirflowApi, folder: Path) -> None:
        self.api, self.store = api, open_store(str(folder / "store"))
        plan = build_plan(load(folder, RECIPE), self.store.uri, "asked-for")
        client = Client(Account(api.url, "me", "secret"))
        self.run = AirflowRun(plan.jobs, self.store, client, "dag", STARTED)
        self.plan = plan.with_run_id(self.run.run_id)
        self.events: list[dict[str, Any]] = []
        self.answer: bool | None = None
        self.hook: Callable[[dict[str, Any]], None] = lambda event: None
        self.tasks: dict[str, Any] = {}
        self.set(**{"run.plan": "success", "run.report": None})
        begin_run(self.store, self.plan, engine="airflow")

    def set(self, *, run: str = "running", **states: Any) -> None:
        """Put the run and some of its tasks into states."""
        self.tasks |= {name: {"task_id": name, "state": state, "try_number": 1} for name, state in states.items()}
        listed = list(self.tasks.values())
        self.api.answers[PATH] = {"state": run}
        self.api.answers[f"{PATH}/taskInstances"] = {"task_instances": listed, "total_entries": len(listed)}

    def job(self, stage: str) -> Job:
        """Return the job of a stage."""
        return next(job for job in self.plan.jobs if job.stage == stage)

    def do(self, stage: str) -> None:
        """Do a stage."""
        entry = stage_entry(self.job(stage), status="done", cache="miss", started=0.0, ended=1.0, inputs={}, metrics={})
        self.store.put(stage_key(self.run.run_id, stage), entry)
        self.set(**{stage: "success"})

    def end(self, status: str) -> None:
        """Do what the last task does."""
        self.store.put(end_key(self.run.run_id), {"status": status, "ended": "now", "seconds": 1.0})
        self.set(run="success" if status == "succeeded" else "failed", **{"run.report": "success"})

    def follow(self) -> tuple[str, str]:
        """Follow the run; the view is this object."""
        return Follower(self.run, self.plan, self.store, self, poll_seconds=0.01).follow()  # type: ignore[arg-type]

    def event(self, event: dict[str, Any]) -> None:
        """Keep what the view is told."""
        self.events.append(event)
        self.hook(event)

    def ask(self, job: Job) -> bool | None:
        """Answer as the test wants."""
        return self.answer

    def told(self, stage: str) -> list[str]:
        """Return the events of a stage."""
        return [event["event"] for event in self.events if event["stage"] == stage]


@pytest.fixture
def api() -> Iterator[AirflowApi]:
    """An Airflow."""
    with airflow_api() as served:
        yield served


@pytest.fixture
def followed(api: AirflowApi, tmp_path: Path) -> Followed:
    """A run of which nothing but its first task is done."""
    return Followed(api, tmp_path)


def test_a_stage_is_shown_from_its_start_over_a_retry_to_its_end(followed: Followed) -> None:
    followed.set(base="running")
    Launch(followed.job("base"), text_lines(), store=followed.store).record_death("the disk fell off")

    def goes_on(event: dict[str, Any]) -> None:
        steps: dict[tuple[str, int], Callable[[], None]] = {
            ("started", 1): lambda: followed.set(base="up_for_retry"),
            ("retry", 1): lambda: followed.set(base="running"),
            ("started", 2): lambda: followed.do("base"),
            ("finished", 1): lambda: followed.end("failed"),
        }
        steps[event["event"], followed.told("base").count(event["event"])]()

    followed.hook = goes_on
    assert followed.follow() == (followed.run.run_id, "failed")
    assert followed.told("base") == ["started", "retry", "started", "finished"]
    [retry] = [event for event in followed.events if event["event"] == "retry"]
    assert (retry["attempt"], retry["seconds"], retry["error"]) == (1, 7, "the disk fell off")


def test_a_person_who_is_not_here_ends_the_watching(followed: Followed) -> None:
    followed.do("base")
    followed.do("other")
    followed.set(**{"asked.approve": "deferred"})
    assert followed.follow() == (followed.run.run_id, "waiting")
    assert followed.events[-1]["event"] == "approval" and followed.api.sent == []


def test_a_question_beside_a_failed_stage_ends_the_watching_and_one_beside_work_does_not(followed: Followed) -> None:
    followed.do("base")
    followed.set(other="running", **{"asked.approve": "deferred"})
    looks = []

    def fails(event: dict[str, Any]) -> None:
        looks.append(event["event"])
        if event["event"] == "started":
            followed.set(other="failed")

    followed.hook = fails
    assert followed.follow() == (followed.run.run_id, "waiting")
    assert "failed" in looks, "while the other stage ran, the run was followed"


def test_a_person_who_is_here_answers_in_airflow(followed: Followed) -> None:
    followed.do("base")
    followed.do("other")
    followed.set(**{"asked.approve": "awaiting_input"})
    followed.answer = True
    question = f"{PATH}/taskInstances/asked.approve/-1/hitlDetails"
    followed.api.answers[question] = {}
    asked = followed.ask

    def ask(job: Job) -> bool | None:
        followed.set(**{"asked.approve": "success"})
        followed.end("failed")
        return asked(job)

    followed.ask = ask  # type: ignore[method-assign]
    assert followed.follow()[1] == "failed"
    assert followed.api.sent == [("PATCH", question, {"chosen_options": ["Approve"], "params_input": {}})]


def test_an_answer_that_does_not_reach_airflow_is_asked_for_again(followed: Followed) -> None:
    followed.do("base")
    followed.do("other")
    followed.set(**{"asked.approve": "awaiting_input"})
    question = f"{PATH}/taskInstances/asked.approve/-1/hitlDetails"
    followed.api.answers[question] = {}
    asked: list[str] = []

    def ask(job: Job) -> bool | None:
        asked.append(job.stage)
        if len(asked) == 1:
            followed.api.broken.append(503)  # the request with the answer
        else:
            followed.set(**{"asked.approve": "success"})
            followed.end("failed")
        return True

    followed.ask = ask  # type: ignore[method-assign]
    assert followed.follow()[1] == "failed"
    assert asked == ["asked", "asked"]
    assert followed.api.sent[-1] == ("PATCH", question, {"chosen_options": ["Approve"], "params_input": {}})


def test_what_the_first_task_refused_is_the_command_s_error(followed: Followed) -> None:
    followed.set(**{"run.plan": "failed"})
    with pytest.raises(
        InputError, match=r"the run's first task failed; its log: http://.*/runs/manual__1/tasks/run.plan"
    ):
        followed.follow()
    followed.api.answers[f"{PATH}/taskInstances/run.plan/xcomEntries/refused"] = {"value": "numbers.yaml:3: no"}
    with pytest.raises(InputError, match=r"^numbers\.yaml:3: no$"):
        followed.follow()


def test_a_run_that_is_written_to_another_store_is_said(followed: Followed, tmp_path: Path) -> None:
    other: Store = open_store(str(tmp_path / "other"))
    run = AirflowRun(followed.plan.jobs, other, followed.run._client, "dag", STARTED)
    with pytest.raises(InputError, match="Airflow uses a different store from"):
        Follower(run, followed.plan, other, followed).follow()  # type: ignore[arg-type]


def test_an_airflow_that_is_away_is_waited_for_but_not_for_ever(
    followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    followed.end("succeeded")
    followed.api.broken += [503, 500]
    assert followed.follow()[1] == "succeeded"
    monkeypatch.setattr(follower_module, "AWAY_SECONDS", 0.05)
    followed.api.broken += [503] * 500
    with pytest.raises(AirflowUnavailable, match="503"):
        followed.follow()


def test_a_store_that_is_away_is_waited_for_as_well(
    followed: Followed, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A port-forward that died, or a read that timed out: the run itself goes on. Every call of the store may fail."""
    followed.do("base")
    followed.end("succeeded")
    page, away = followed.run.page, StoreUnavailable("store s3://b could not be used: Read timeout on endpoint URL")
    for broken in range(1, 6):
        calls = iter(range(100))
        for name in ("keys", "get"):
            real = getattr(Store, name)

            def fails(self: Store, *given: Any, real: Any = real, calls: Any = calls, broken: int = broken) -> Any:
                if next(calls) % 7 == broken:
                    raise away
                return real(self, *given)

            monkeypatch.setattr(Store, name, fails)
        followed.events.clear()
        assert followed.follow()[1] == "succeeded"
        assert followed.told("base") == ["finished"], "shown once, with its facts"
        assert capsys.readouterr().err.count("waiting: store s3://b could not be used") <= 2
        monkeypatch.undo()
    monkeypatch.setattr(follower_module, "AWAY_SECONDS", 0.05)
    monkeypatch.setattr(Store, "keys", lambda *given: (_ for _ in ()).throw(away))
    with pytest.raises(StoreUnavailable) as told:
        followed.follow()
    assert str(told.value) == f"{away}; the run goes on at {page}; the same command follows it again"


def test_ctrl_c_leaves_the_run_to_airflow(followed: Followed) -> None:
    followed.set(base="running")

    def interrupt(event: dict[str, Any]) -> None:
        raise KeyboardInterrupt

    followed.hook = interrupt
    with pytest.raises(KeyboardInterrupt):
        followed.follow()
    assert followed.api.sent == []
