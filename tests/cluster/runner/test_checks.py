"""Single checks on what was seen and what the ledger has: none lets through what must not happen."""

from __future__ import annotations

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from components.runtime.ledger.ledger import RunRecord
from components.runtime.store import Store, open_store
from pipelines.engines.driver.api import Cluster
from pipelines.engines.driver.causes import Cause
from pipelines.engines.driver.record import Book
from tests.cluster import checks, stopping
from tests.cluster.outcome import Step, take
from tests.cluster.runner.stage_run import session_of
from tests.cluster.sightings import Sighting, Sightings
from tests.support.api_server.cluster import NAMESPACE, SimulatedCluster
from tests.support.api_server.server import served

RUN, STAGE = "quickstart-20261123-120000-ab12", "rl"
DIGEST = "0" * 64


def seen_of(*pods: Sighting) -> Sightings:
    seen = Sightings(RUN, Cluster("http://nobody"), NAMESPACE)
    seen.pods = {f"pod-{number}": pod for number, pod in enumerate(pods)}
    return seen


def record(cache: str = "miss", outputs: dict[str, Any] | None = None, **more: Any) -> RunRecord:
    entry = {"stage": STAGE, "cache": cache, "outputs": outputs or {}, "ended": "a", **more}
    return RunRecord(RUN, {"stages": [{"name": STAGE}]}, {STAGE: entry}, {}, {"status": "succeeded"})


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Return an empty store."""
    return open_store(str(tmp_path / "store"))


def tried(store: Store, *names: str) -> None:
    """Write down tries that ended well."""
    book = Book(store, RUN, STAGE)
    for name in names:
        book.begin(name, "Job")
        book.end(Cause.DONE, "")


def truth(store: Store, run: RunRecord, *pods: Sighting, driven: bool = True) -> list[str]:
    return checks.ledger_truth(seen_of(*pods), store, run, driven=driven)


def test_a_ledger_that_tells_what_ran_is_true(store: Store) -> None:
    tried(store, "rl-a")
    assert truth(store, record(), Sighting(STAGE, "rl-a", "Succeeded")) == []
    assert truth(store, record("hit")) == []


def test_a_cached_stage_that_ran_is_found_but_not_one_that_came_second(store: Store) -> None:
    tried(store, "rl-a")
    ran = Sighting(STAGE, "rl-a", "Succeeded")
    (told,) = truth(store, record("hit", produced_by={"run_id": "another"}), ran)
    assert "the ledger says it was not run (cache: hit), and rl-a ended well" in told
    assert truth(store, record("hit", produced_by={"run_id": RUN}), ran) == []
    assert "cache: none" in truth(store, record("none"), ran)[0]


def test_an_output_that_is_not_stored_is_found(store: Store) -> None:
    (told,) = truth(store, record(outputs={"model": {"digest": DIGEST}}), driven=False)
    assert told == f"stage 'rl': its output model ({DIGEST}) is not in the store"


def test_a_stage_that_the_ledger_alone_knows_is_found(store: Store) -> None:
    assert "its driver's last try says otherwise" in truth(store, record())[0]


def test_a_stage_that_ended_well_twice_is_found(store: Store) -> None:
    pods = (Sighting(STAGE, "rl-a", "Succeeded"), Sighting(STAGE, "rl-b", "Succeeded"))
    assert checks.double_work(seen_of(*pods), store, record()) == ["stage 'rl' was done twice: by rl-a, rl-b"]
    tried(store, "rl-a", "rl-b")
    assert "its driver wrote down 2 ends" in checks.double_work(seen_of(), store, record())[0]


@pytest.mark.parametrize(("began", "wrong"), [(19.0, 1), (20.0, 0), (25.0, 0)])
def test_works_that_overlap_between_two_looks_are_found(store: Store, began: float, wrong: int) -> None:
    pods = (
        Sighting(STAGE, "rl-a", "Failed", began=10.0, ended=20.0),
        Sighting(STAGE, "rl-b", "Succeeded", began=began, ended=30.0),
    )
    assert len(checks.double_work(seen_of(*pods), store, record())) == wrong


def test_nodes_of_one_work_are_no_double_work(store: Store) -> None:
    pods = [Sighting(STAGE, "rl-a", "Succeeded", began=10.0, ended=20.0) for _ in range(2)]
    assert checks.double_work(seen_of(*pods), store, record()) == []


@pytest.mark.parametrize(("renews", "longest"), [(True, 60.0), (False, 120.0)])
def test_how_long_a_lease_is_silent_is_told_by_our_own_clock(renews: bool, longest: float) -> None:
    world = SimulatedCluster(lambda: True)
    labels = {"posttrain.dev/run": RUN, "posttrain.dev/stage": STAGE, "posttrain.dev/stage-key": "k"}
    pod = {"metadata": {"name": "p", "namespace": NAMESPACE, "labels": labels}, "status": {"phase": "Running"}}
    world.objects.create("pods", pod)
    held = {"posttrain.dev/role": "driver", "posttrain.dev/stage-key": "k"}
    spec = {"holderIdentity": "driver-1-ab", "renewTime": "1999-01-01T00:00:00Z"}  # by a clock that is wrong
    world.objects.create("leases", {"metadata": {"name": "l", "namespace": NAMESPACE, "labels": held}, "spec": spec})
    clock = [0.0]
    with served(world) as url:
        seen = Sightings(RUN, Cluster(url), NAMESPACE, lambda: clock[0])
        for clock[0] in (0.0, 60.0, 120.0):
            if renews and clock[0] == 60.0:
                renewed = {**spec, "renewTime": "1999-01-01T00:01:00Z"}
                world.objects.change(("leases", NAMESPACE, "l"), spec=renewed)
            seen.look()
    assert seen.leases["k"].longest == longest
    assert bool(checks.silent_leases(seen)) is not renews
    seen.excused.add("k")
    assert checks.silent_leases(seen) == []


def test_work_that_is_done_again_after_a_deleted_run_is_found(store: Store) -> None:
    act = type("Act", (), {"run_id": RUN})()
    store.put(f"ledger/{RUN}/run.json", {"run_id": RUN, "stages": [{"name": STAGE}]})
    store.put(f"ledger/{RUN}/stages/{STAGE}.json", {"stage": STAGE, "ended": "late", "cache": "miss", "outputs": {}})
    assert stopping.resumed(store, act, act, {STAGE: "late"}) == []
    assert "done again after it" in stopping.resumed(store, act, act, {STAGE: "early"})[0]


@pytest.fixture
def kubeflow() -> Iterator[tuple[str, set[str]]]:
    """Yield the address of a server that takes some tokens alone, and these."""
    tokens: set[str] = set()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known = self.headers.get("Authorization", "").removeprefix("Bearer ") in tokens
            self.send_response(200 if known or "open" in tokens else 401)
            self.end_headers()

        def log_message(self, *arguments: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", tokens
    server.shutdown()
    server.server_close()


@pytest.mark.usefixtures("toy_catalog")
def test_a_login_that_ends_is_renewed_and_none_is_left(tmp_path: Path, kubeflow: tuple[str, set[str]]) -> None:
    url, tokens = kubeflow
    with session_of(tmp_path) as (session, run):
        session.environ["POSTTRAIN_KUBEFLOW_URL"] = url
        session.kubectl.tokens = tokens
        run.world.steps = [lambda world: None] * 60
        outcome = take(Step("token", "", "", stopping.token), session, {})
        assert outcome.verdict == "pass", outcome.said
        assert session.kubectl.objects == {} and tokens == {"free"}
        assert not (session.folder / "token").exists() and "POSTTRAIN_KUBEFLOW_TOKEN_FILE" not in session.environ


@pytest.mark.usefixtures("toy_catalog")
def test_a_command_that_gives_up_with_its_login_is_found(tmp_path: Path, kubeflow: tuple[str, set[str]]) -> None:
    url, tokens = kubeflow
    with session_of(tmp_path) as (session, run):
        session.environ["POSTTRAIN_KUBEFLOW_URL"] = url
        session.kubectl.tokens = tokens
        run.deaf, run.again = True, False
        run.world.steps = [*[lambda world: None] * 2, lambda world: run.stop_soon()]
        outcome = take(Step("token", "", "", stopping.token), session, {})
    assert outcome.verdict == "fail" and "the command ended when its token had" in outcome.said


def test_a_kubeflow_that_takes_everybody_has_no_login_to_end(tmp_path: Path, kubeflow: tuple[str, set[str]]) -> None:
    url, tokens = kubeflow
    tokens.add("open")
    with session_of(tmp_path) as (session, _):
        session.environ["POSTTRAIN_KUBEFLOW_URL"] = url
        outcome = take(Step("token", "", "", stopping.token), session, {})
    assert (outcome.verdict, outcome.said) == ("left out", "this Kubeflow asks for no token")
