"""The task of a part: it starts one run for it, goes on with that one, and stops it with the whole."""

from __future__ import annotations

import base64
import lzma
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from components.contract.errors import InputError, StageFailed
from components.runtime.store import Store, open_store
from pipelines.engines.driver.attempt import Clock
from pipelines.engines.kubeflow.client.account import Account
from pipelines.engines.kubeflow.client.api import Client
from pipelines.engines.kubeflow.client.rest import KubeflowUnavailable, Refused
from pipelines.engines.kubeflow.client.run import KubeflowRun
from pipelines.engines.kubeflow.compiler.parts import unpack
from pipelines.engines.kubeflow.names import part_key, run_key
from pipelines.engines.kubeflow.part import Part, Stopped
from tests.support.kubeflow_api import KubeflowApi, ServedRun, kubeflow_api

GIVEN = {name: {"parameterType": "STRING"} for name in ("posttrain_run", "posttrain_store")}
PIPELINE = f"root: {{inputDefinitions: {{parameters: {GIVEN}}}}}\n---\nplatforms: {{}}\n"
WHOLE = "root: {}\n---\nplatforms: {}\n"


class World:
    """A run of the whole, and what happens while the task of its part waits."""

    def __init__(self, api: KubeflowApi, store: Store) -> None:
        self.api, self.store, self.seconds = api, store, 0.0
        self.happens: list[Callable[[], Any]] = []
        self.client = Client(Account(api.url))
        self.whole = self.client.submit(WHOLE, {}, name="whole", experiment="big")
        api.runs[self.whole].state = "RUNNING"

    def sleep(self, seconds: float) -> None:
        """Let time pass, and the next thing happen."""
        self.seconds += seconds
        if self.happens:
            self.happens.pop(0)()

    def task(self, client: Client | None = None) -> Part:
        """Return the task of the part, in a pod of its own."""
        clock = Clock(lambda: self.seconds, self.sleep)
        return Part(self.store, "big-1", self.whole, 2, 3, PIPELINE, client or self.client, clock)

    @property
    def parts(self) -> list[ServedRun]:
        """Return the runs that were started for the part."""
        return [run for name, run in self.api.runs.items() if name != self.whole]

    def becomes(self, state: str, number: int = -1) -> Callable[[], None]:
        """Return what puts one of them into a state."""
        return lambda: setattr(self.parts[number], "state", state)

    def stopped(self) -> None:
        """Do what SIGTERM does."""
        raise Stopped


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A whole run that is going, on a Kubeflow of its own."""
    with kubeflow_api(tmp_path / "pods") as api:
        yield World(api, open_store(str(tmp_path / "store")))


def test_a_part_is_a_run_beside_the_whole(world: World) -> None:
    world.happens = [world.becomes("RUNNING"), world.becomes("SUCCEEDED")]
    world.task().carry_out()
    (part,) = world.parts
    assert part.body["experiment_id"] == world.api.runs[world.whole].body["experiment_id"]
    given = part.body["runtime_config"]["parameters"]
    assert given == {"posttrain_run": "big-1", "posttrain_store": world.store.uri}
    assert part.body["display_name"] == "big-1 part 2 of 3"
    assert world.store.get(part_key(world.whole, 2)) == {"run_id": part.body["run_id"]}
    world.task().carry_out()
    assert len(world.parts) == 1 and part.verbs == [], "one that has succeeded is done"


@pytest.mark.parametrize("state", ["FAILED", "CANCELED", "ERROR"])
def test_a_part_that_fails_is_tried_again_by_the_next_task_in_the_same_run(world: World, state: str) -> None:
    world.happens = [world.becomes(state)]
    with pytest.raises(StageFailed, match=rf"part 2 of 3: Kubeflow's run .* is {state}"):
        world.task().carry_out()
    world.becomes("FAILED")()
    world.happens = [world.becomes("SUCCEEDED")]
    world.task().carry_out()
    assert [run.verbs for run in world.parts] == [["retry"]]


def test_a_part_that_kubeflow_does_not_try_again_gets_another_run(world: World) -> None:
    world.happens = [world.becomes("ERROR")]
    with pytest.raises(StageFailed):
        world.task().carry_out()
    world.happens = [world.becomes("SUCCEEDED")]  # this Kubeflow retries what FAILED alone
    world.task().carry_out()
    assert len(world.parts) == 2


def test_a_task_that_was_lost_with_its_pod_is_followed_by_one_that_finds_the_run(world: World) -> None:
    world.api.lose_answers = 1
    world.happens = [lambda: None, world.becomes("SUCCEEDED")]
    world.task().carry_out()
    assert len(world.parts) == 1, "its answer was lost, and the run is known by its description"


def test_a_task_that_is_told_to_end_leaves_its_run_to_the_next_one(world: World) -> None:
    world.happens = [world.stopped]
    with pytest.raises(Stopped):
        world.task().carry_out()
    assert world.parts[0].verbs == [] and world.seconds < 30, "pods have half a minute"
    world.happens = [world.becomes("SUCCEEDED")]
    world.task().carry_out()
    assert len(world.parts) == 1


@pytest.mark.parametrize("how", ["CANCELING", "CANCELED", "FAILED", "deleted"])
def test_a_part_is_stopped_with_the_whole(world: World, how: str) -> None:
    def end() -> None:
        if how == "deleted":
            del world.api.runs[world.whole]
        else:
            world.api.runs[world.whole].state = how

    world.happens = [world.stopped, end]  # the pod is told a moment before Kubeflow says why
    with pytest.raises(Stopped):
        world.task().carry_out()
    assert world.parts[0].verbs == ["terminate"]


def test_a_part_whose_run_is_deleted_fails_and_is_begun_anew_by_a_retry(world: World) -> None:
    world.happens = [lambda: world.api.runs.pop(world.parts[0].body["run_id"])]
    with pytest.raises(StageFailed, match="part 2 of 3: somebody has deleted its run in Kubeflow"):
        world.task().carry_out()
    world.api.runs["other"] = ServedRun({"run_id": "other", "experiment_id": "x"}, state="RUNNING")
    world.happens = [world.becomes("SUCCEEDED")]
    world.task().carry_out()
    assert len(world.parts) == 2


def test_a_token_that_expires_is_waited_for_until_it_is_renewed(world: World, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first")
    world.api.token = "first"
    client = Client(Account.inside(world.api.url, {"KF_PIPELINES_SA_TOKEN_PATH": str(token)}))
    later = [lambda: None] * 30
    world.happens = [lambda: setattr(world.api, "token", "second"), *later, lambda: token.write_text("second")]
    world.happens += [world.becomes("SUCCEEDED")]
    world.task(client).carry_out()
    assert len(world.parts) == 1


@pytest.mark.parametrize(("broken", "kind"), [(401, Refused), (503, KubeflowUnavailable)])
def test_a_kubeflow_that_answers_to_nobody_fails_the_part_after_two_minutes(
    world: World, broken: int, kind: type[Exception]
) -> None:
    world.api.broken = [broken] * 100
    with pytest.raises(kind):
        world.task().carry_out()
    assert 120 < world.seconds < 150 and not world.parts


def test_the_whole_goes_on_and_is_stopped_with_its_parts(world: World) -> None:
    world.happens = [world.stopped]
    with pytest.raises(Stopped):
        world.task().carry_out()
    world.store.put(run_key(world.whole), {"run_id": "big-1"})
    (part,) = world.parts
    part.state, part.running = "RUNNING", ["deep"]
    run = KubeflowRun([], world.store, world.client, world.whole)
    world.api.runs[world.whole].state = "FAILED"
    assert not run.look().ended, "its part goes on"
    assert run._seen().running == {"deep"}
    world.api.runs[world.whole].state = "RUNNING"
    run.stop()
    assert (world.api.runs[world.whole].verbs, part.verbs) == (["terminate"], ["terminate"])
    assert run.look().ended
    run.stop()
    assert part.verbs == ["terminate"], "it has ended"


@pytest.mark.parametrize("text", ["", "%%%", base64.b64encode(b"plain").decode(), "\u202e"])
def test_what_is_no_pipeline_of_a_part_is_said(text: str) -> None:
    with pytest.raises(InputError, match="not the pipeline of a part"):
        unpack(text)
    assert unpack(base64.b64encode(lzma.compress(b"root: {}")).decode()) == "root: {}"
