"""The chaos table: what befalls a stage on a cluster, how often it is tried, and what comes of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.engines.driver.api import Cluster, LoginRefused
from pipelines.engines.driver.driver import Stopped
from pipelines.engines.driver.lease import LeaseLost
from pipelines.engines.driver.reap import reap
from tests.pipelines.engines.driver.drives import STAGE, Drive, Killed, drive_of, entry_of, kills
from tests.support.api_server.cluster import NAMESPACE, SimulatedCluster, go_well
from tests.support.api_server.events import DISRUPTING, OWN, WELL, faults

RUNS = WELL["runs"]
EVENTS = {**WELL, **OWN, **DISRUPTING}
CAUSES = {
    "fails": "failed",
    "crashes": "failed",
    "memory": "memory",
    "disk": "disk",
    "deadline": "timeout",
    "deleted": "deleted",
    "evicted": "evicted",
    "preempted": "preempted",
    "tainted": "node lost",
    "node shuts down": "evicted",
    "node pressure": "evicted",
    "vanishes": "node lost",
    "lost": "node lost",
}


def check_end(drive: Drive, code: int) -> None:
    """Check what holds however a stage ended: no orphan, no double work, and the ledger has what ran."""
    world, record = drive.world, drive.record
    assert world.wrong == []
    assert world.active() == [] and world.pods(None, "Running", "Pending") == []
    tries = [one.name for one in record.tries]
    assert [name for name in tries if name in world.created] == world.created, "each work is a try"
    assert {one.name for one in record.tries if one.seen} <= set(world.created)
    assert all(one.cause is not None for one in record.tries)
    assert record.final == code and drive.waits == ""
    assert (drive.entry() is not None) == (code == 0)
    assert world.commits == (1 if code == 0 else 0)
    if code:
        assert drive.error
    assert (record.causes[-1:] == ["done"]) == (code == 0)
    reap(Cluster(drive.url), NAMESPACE, world.now() + 4 * 86_400)
    left = {key[0] for key in world.objects.kept} - {"events"}
    assert left == set(), "nothing is left in the end"


@pytest.mark.parametrize("kind", ["Job", "JobSet", "TrainJob"])
@pytest.mark.parametrize("name", [*WELL])
def test_what_a_stage_survives_in_one_try(tmp_path: Path, name: str, kind: str) -> None:
    with drive_of(tmp_path, kind, retries=0) as drive:
        drive.world.steps = [EVENTS[name], RUNS, EVENTS[name]]
        assert drive.drive() == 0
        assert len(drive.world.created) == 1
        check_end(drive, 0)


@pytest.mark.parametrize("kind", ["Job", "JobSet", "TrainJob"])
@pytest.mark.parametrize("name", [*OWN])
def test_failures_of_a_stage_use_up_its_retries(tmp_path: Path, name: str, kind: str) -> None:
    with drive_of(tmp_path, kind, retries=1) as drive:
        drive.world.steps = [RUNS, OWN[name]]
        assert drive.drive() == 0
        assert drive.causes == [CAUSES[name], "done"]
        check_end(drive, 0)
    with drive_of(tmp_path / "again", kind, retries=1) as drive:
        drive.world.steps = [RUNS, OWN[name], WELL["waits"], RUNS, OWN[name]]
        assert drive.drive() == 1
        assert drive.causes == [CAUSES[name]] * 2
        check_end(drive, 1)


@pytest.mark.parametrize("kind", ["Job", "JobSet", "TrainJob"])
@pytest.mark.parametrize("name", [*DISRUPTING])
def test_disruptions_use_up_no_retry(tmp_path: Path, name: str, kind: str) -> None:
    with drive_of(tmp_path, kind, retries=0) as drive:
        drive.world.steps = 2 * [RUNS, DISRUPTING[name], WELL["waits"], WELL["waits"]]
        assert drive.drive() == 0
        assert drive.causes[0] == CAUSES[name] and drive.causes[-1] == "done"
        check_end(drive, 0)


@pytest.mark.parametrize(("spot", "tries"), [(False, 11), (True, 13)])
def test_disruptions_have_a_limit_of_their_own_and_spot_nodes_a_larger_one(
    tmp_path: Path, spot: bool, tries: int
) -> None:
    with drive_of(tmp_path, retries=0, spot=spot) as drive:

        def evict_twelve(world: SimulatedCluster) -> None:
            RUNS(world)
            if len(world.created) <= 12:
                DISRUPTING["evicted"](world)
            else:
                go_well(world)

        drive.world.steps = [evict_twelve] * 1500
        assert drive.drive() == (0 if spot else 1)
        assert len(drive.causes) == tries


def test_a_refusal_is_not_tried_again(tmp_path: Path) -> None:
    with drive_of(tmp_path, retries=5) as drive:

        def refused(world: SimulatedCluster) -> None:
            drive.fails_with("gate pass_rate >= 0.5 does not hold", "refused")
            OWN["fails"](world)  # torchrun's exit code is 1 whatever a rank's was

        drive.world.steps = [RUNS, refused]
        assert drive.drive() == 2
        assert drive.causes == ["refused"] and drive.error == "gate pass_rate >= 0.5 does not hold"
        check_end(drive, 2)


@pytest.mark.parametrize(
    ("name", "cause", "said"),
    [
        ("image", "image", "cannot be pulled: ErrImagePull"),
        ("configuration", "configuration", "cannot start: CreateContainerConfigError"),
        ("no node", "no node", "0/3 nodes are available"),
        ("quota", "no node", "quota is used up"),
    ],
)
def test_what_never_starts_is_told_and_ends_in_time(
    tmp_path: Path, name: str, cause: str, said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with drive_of(tmp_path, retries=3) as drive:
        notes: list[str] = []
        drive.world.steps = [WELL["quota"]] if name == "quota" else []
        drive.world.quota = name == "quota"
        drive.world.steps += [EVENTS[name], *[lambda world: notes.append(drive.waits)] * 3]
        drive.world.steps += [lambda world: setattr(world, "seconds", world.seconds + 4000.0)] * 8
        drive.world.stuck = True
        assert drive.drive() == 2
        assert drive.causes == [cause] and said in drive.error and said in notes[-1]
        assert said in capfd.readouterr().out
        drive.world.quota = False
        check_end(drive, 2)


def test_a_queue_takes_as_long_as_it_takes(tmp_path: Path) -> None:
    with drive_of(tmp_path, retries=0) as drive:
        began = drive.world.now()
        day: list[str] = []

        def later(world: SimulatedCluster) -> None:
            world.seconds += 86_400
            day.append(drive.waits)

        drive.world.steps = [WELL["suspended"], later, later, later]
        assert drive.drive() == 0 and drive.world.now() - began > 3 * 86_400
        assert day[-1] == "waits in its queue"
        check_end(drive, 0)


@pytest.mark.parametrize("after", [False, True], ids=["before the request", "after the request"])
@pytest.mark.parametrize("at", range(8))
def test_a_driver_that_is_killed_at_any_request_is_followed_by_one_that_goes_on(
    tmp_path: Path, at: int, after: bool
) -> None:
    with drive_of(tmp_path, retries=0) as drive:
        kill = kills(drive, Killed, after=after)
        count = [at]

        class Countdown(list):  # type: ignore[type-arg]
            def __bool__(self) -> bool:
                count[0] -= 1
                if count[0] == -1:
                    kill(drive.world)
                return len(self) > 0

        drive.ends = Countdown()
        assert drive.drive() == 0
        assert drive.codes == ["Killed", 0]
        assert len(drive.world.created) == 1, "the work goes on without its driver"
        check_end(drive, 0)


@pytest.mark.parametrize("kind", ["Job", "JobSet", "TrainJob"])
def test_whoever_stops_the_driver_frees_the_nodes(tmp_path: Path, kind: str) -> None:
    with drive_of(tmp_path, kind, retries=0) as drive:
        drive.world.steps = [RUNS, kills(drive, lambda: Stopped("stopped by SIGTERM"))]
        with pytest.raises(Stopped):
            drive.driver().drive()
        assert drive.world.active() == []
        assert drive.drive() == 0, "and the next one need not wait"
        assert drive.causes == ["stopped", "done"]
        check_end(drive, 0)


def test_a_driver_that_is_lost_for_good_leaves_nothing_that_runs(tmp_path: Path) -> None:
    with drive_of(tmp_path) as drive:
        drive.world.steps = [RUNS, kills(drive, Killed)]
        drive.world.stuck = True
        with pytest.raises(Killed):
            drive.driver().drive()
        cluster = Cluster(drive.url)
        assert reap(cluster, NAMESPACE, drive.world.now() + 300) == [] and drive.world.active()
        assert len(reap(cluster, NAMESPACE, drive.world.now() + 1200)) == 1
        assert drive.world.active() == [] and drive.world.pods() == []
        drive.world.stuck = False
        assert drive.drive() == 0 and drive.causes == ["node lost", "done"]


def test_one_driver_at_a_time(tmp_path: Path) -> None:
    with drive_of(tmp_path) as drive:
        drive.world.steps = [RUNS, kills(drive, Killed)]
        first = drive.driver()
        with pytest.raises(Killed):
            first.drive()
        second = drive.driver()
        assert not second._lease.take(), "the first may yet live"
        drive.world.seconds += 100
        assert second._lease.take()
        with pytest.raises(LeaseLost):
            first._lease.renew()
        assert drive.world.active(), "and leaves its work to the second"


def test_nothing_is_created_for_what_is_done_or_left_out(tmp_path: Path) -> None:
    with drive_of(tmp_path) as drive:
        drive.store.put("ledger/nightly-20261121-120000-ab12/stages/train.json", entry_of(drive.job))
        assert drive.drive() == 0
        assert drive.world.requests == [], "not even Kubernetes is asked"


def test_a_run_goes_on_without_a_stage_that_failed_for_good(tmp_path: Path) -> None:
    with drive_of(tmp_path, retries=1, on_failure="skip") as drive:
        drive.world.steps = [RUNS, OWN["fails"], WELL["waits"], RUNS, OWN["crashes"]]
        assert drive.drive() == 0
        entry = drive.entry()
        assert entry is not None and entry["failed"] and drive.causes == ["failed", "failed"]
        assert drive.world.active() == []


def test_a_retry_of_the_engine_is_not_one_of_a_person(tmp_path: Path) -> None:
    with drive_of(tmp_path, retries=0) as drive:
        drive.world.steps = [RUNS, OWN["fails"]]
        assert drive.drive() == 1
        assert drive.drive(retried=True) == 1 and len(drive.world.created) == 1
        assert drive.drive() == 0 and drive.causes == ["failed", "done"], "a person's retry has tries of its own"
        check_end(drive, 0)


@pytest.mark.parametrize(
    ("kind", "unknown", "rejects", "said"),
    [
        ("JobSet", {"jobsets"}, "", "install JobSet"),
        ("TrainJob", {"trainjobs"}, "", "install Kubeflow Trainer 2.2"),
        ("Job", set(), "jobs is forbidden: cannot create resource", "is forbidden"),
    ],
)
def test_what_kubernetes_refuses_is_told_and_not_tried_again(
    tmp_path: Path, kind: str, unknown: set[str], rejects: str, said: str
) -> None:
    with drive_of(tmp_path, kind, retries=3) as drive:
        drive.world.unknown, drive.world.rejects = unknown, rejects
        assert drive.drive() == 2
        assert drive.causes == ["rejected"] and said in drive.error
        assert STAGE in drive.record.tries[0].name


def test_a_login_that_is_refused_is_told_in_one_line_and_waited_for(tmp_path: Path) -> None:
    with drive_of(tmp_path) as drive:
        told: list[str] = []
        drive.world.steps = [RUNS, faults(*[401] * 3), *[lambda world: told.append(drive.waits)] * 3]
        assert drive.drive() == 0
        assert told[0] == "Kubernetes does not accept this login (HTTP 401): as the test wants it"
        check_end(drive, 0)


def test_a_driver_is_refused_for_good_after_an_hour(tmp_path: Path) -> None:
    with drive_of(tmp_path) as drive:
        drive.world.faults = [401] * 1000
        with pytest.raises(LoginRefused):
            drive.driver().drive()


def test_limits_count_on_when_the_driver_is_another_one(tmp_path: Path) -> None:
    with drive_of(tmp_path, retries=3) as drive:
        hour = [kills(drive, Killed), lambda world: setattr(world, "seconds", world.seconds + 3600.0)]
        drive.world.steps, drive.world.stuck = [EVENTS["no node"], *hour * 8], True
        began = drive.world.now()
        assert drive.drive() == 2 and drive.codes.count("Killed") > 4
        assert drive.causes == ["no node"] and drive.world.now() - began < 9 * 3600
        check_end(drive, 2)


def test_a_driver_that_is_stopped_while_another_one_has_the_stage_leaves_it_alone(tmp_path: Path) -> None:
    with drive_of(tmp_path) as drive:
        drive.world.steps, drive.world.stuck = [RUNS, kills(drive, Killed)], True
        with pytest.raises(Killed):
            drive.driver().drive()
        other = drive.driver()
        assert other.act() is None and "another driver" in drive.waits
        other._leave()
        assert drive.world.active() and drive.causes == ["None"]
