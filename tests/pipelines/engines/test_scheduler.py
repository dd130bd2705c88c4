"""The local scheduler: questions that are answered while other work goes on."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from components.contract.job import Job
from components.runtime.costs.attempts import attempts_of
from components.runtime.job.metering import WAITED, Meter
from components.runtime.store import Store, open_store
from pipelines.engines.local.scheduler import Ending, Scheduler
from pipelines.engines.shared.approvals import record_decision
from pipelines.engines.shared.attempt import Ended
from pipelines.plan.plan import build_plan
from pipelines.runs.view import PlainView
from tests.pipelines.writing import load

pytestmark = pytest.mark.usefixtures("toy_catalog")
PATIENCE_SECONDS = 30.0
RECIPE = """
stages:
  long: {uses: curate}
  asked: {uses: pretrain, with: {layers: 1}, approve: {message: "Go on?", timeout: 0.05, on_timeout: ANSWER}}
  behind: {uses: curate, with: {rows: 2}, after: asked}
"""


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "store"))


def run(folder: Path, store: Store, text: str, work: Callable[[Job], None]) -> tuple[Ending, list[str], str]:
    """Run a recipe whose stages do `work`; return the ending, the stages that ran in order, and what was shown."""
    jobs = build_plan(load(folder, text), store.uri, "r-1").jobs
    ran, shown = [], io.StringIO()

    def attempt(job: Job, *rest: Any) -> Ended:
        ran.append(job.stage)
        work(job)
        return Ended(0)

    view = PlainView(list(jobs), shown)
    scheduler = Scheduler(jobs, store=store, view=view, logs=folder, environment={}, cores=4, attempt=attempt)
    return scheduler.run(), ran, shown.getvalue()


def test_what_is_stopped_or_dies_unseen_is_noted_and_waiting_is_told(tmp_path: Path, store: Store) -> None:
    told: dict[str, float] = {}
    text = "stages:\n  first: {uses: curate}\n  second: {uses: curate, with: {rows: 2}, after: first}\n"
    jobs = build_plan(load(tmp_path, text), store.uri, "r-1").jobs

    def attempt(job: Job, log: Path, environment: dict[str, str], on_event: Any, stop: Event) -> Ended:
        told[job.stage] = float(environment[WAITED])
        meter = Meter(store, job, processes=1, own_process=False)
        meter.__enter__()  # and its process ends without a word
        if job.stage == "first":
            meter.end("succeeded")
            return Ended(0)
        stop.set()
        return Ended(130, "stopped")

    view = PlainView(list(jobs), io.StringIO())
    Scheduler(jobs, store=store, view=view, logs=tmp_path, environment={}, cores=1, attempt=attempt).run()
    ends = {stage: [one.end for one in tries] for stage, tries in attempts_of(store, "r-1")[0].items()}
    assert ends == {"first": ["succeeded"], "second": ["stopped"]}
    assert told.keys() == ends.keys() and all(0 <= seconds < PATIENCE_SECONDS for seconds in told.values())


def test_a_deadline_that_passes_while_other_work_goes_on_is_applied_in_the_same_run(
    tmp_path: Path, store: Store
) -> None:
    released = Event()

    def work(job: Job) -> None:
        if job.stage == "asked":
            released.set()
        elif job.stage == "long":
            assert released.wait(PATIENCE_SECONDS), "the stage that the clock approved did not start"

    ending, ran, shown = run(tmp_path, store, RECIPE.replace("ANSWER", "approve"), work)
    assert (ending.status, ran) == ("succeeded", ["long", "asked", "behind"])
    assert shown.count("needs approval") == 1
    assert store.get("approvals/r-1/asked.json")["by"] == "time limit"


def test_a_rejection_by_the_clock_blocks_what_is_behind(tmp_path: Path, store: Store) -> None:
    clock = Event()

    def work(job: Job) -> None:
        assert job.stage == "long"
        looks = (store.get("approvals/r-1/asked.json") or clock.wait(0.02) for _ in range(1000))
        assert any(looks), "the clock's answer is not on record while this stage works"

    ending, ran, _ = run(tmp_path, store, RECIPE.replace("ANSWER", "reject"), work)
    assert (ending.status, ran, list(ending.failed), ending.blocked) == ("failed", ["long"], ["asked"], {"behind"})


def test_an_answer_from_another_terminal_is_heard_by_the_run(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipelines.engines.local.scheduler.LOOK_AGAIN_SECONDS", 0.02)
    released = Event()

    def work(job: Job) -> None:
        if job.stage == "asked":
            released.set()
        elif job.stage == "long":
            record_decision(store, "r-1", "asked", approved=True, by="ann")
            assert released.wait(PATIENCE_SECONDS)

    text = RECIPE.replace("timeout: 0.05, on_timeout: ANSWER", "timeout: 1h")
    ending, ran, _ = run(tmp_path, store, text, work)
    assert (ending.status, ran) == ("succeeded", ["long", "asked", "behind"])


def test_a_question_without_an_answer_ends_the_run_as_waiting(tmp_path: Path, store: Store) -> None:
    text = RECIPE.replace("timeout: 0.05, on_timeout: ANSWER", "timeout: 1h")
    ending, ran, _ = run(tmp_path, store, text, lambda job: None)
    assert (ending.status, ran, ending.waiting) == ("waiting", ["long"], {"asked", "behind"})
