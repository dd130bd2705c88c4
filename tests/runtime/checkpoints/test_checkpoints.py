"""Checkpoints of a running stage: written beside the work, only what changed, and exact whatever happens meanwhile."""

from __future__ import annotations

import json
import math
import os
import random
import resource
import signal
import threading
import time
from pathlib import Path

import pytest

from components.contract.errors import StoreUnavailable
from components.runtime.checkpoints.changes import Changes
from components.runtime.checkpoints.checkpoints import Checkpoints
from components.runtime.store import Store, open_store
from components.runtime.store.s3 import S3Blobs
from components.runtime.store.s3_calls import S3Calls

WEIGHTS = 200_000


def checkpoints_of(store: Store, scratch: Path) -> Checkpoints:
    """Return the checkpoints of a new attempt at a job."""
    (scratch / "outputs").mkdir(parents=True)
    return Checkpoints(store.partials("job"), scratch, scratch / "outputs")


def content_of(step: int) -> dict[str, bytes]:
    return {"weights": f"{step};".encode() * (WEIGHTS // len(f"{step};")), "frozen": b"f" * WEIGHTS}


def begin(checkpoints: Checkpoints, step: int, done=lambda: None) -> None:
    """Do step `step`: a row, a growing output and a checkpoint."""
    checkpoints.log("rows").append([{"step": step}])
    with (checkpoints._outputs / "samples.jsonl").open("a") as stream:
        stream.write(f"{step}\n")

    def write(folder: Path):
        def finish() -> None:
            for name, data in content_of(step).items():
                (folder / name).write_bytes(data)

        return finish

    checkpoints.begin(step, write, {"step": step}, done)


def check(store: Store, scratch: Path, at_least: int) -> tuple[int, Checkpoints]:
    """Restore a new attempt, which must find all of the checkpoint of a step; return the step."""
    checkpoints = checkpoints_of(store, scratch)
    found = checkpoints.restore(pytest.fail)
    assert (found is not None) or at_least == 0
    step = found[1]["step"] if found else 0
    assert step >= at_least and (found is None or found[0] == step)
    if found:
        assert {path.name: path.read_bytes() for path in checkpoints.resumed.iterdir()} == content_of(step)
    assert [row["step"] for row in checkpoints.log("rows").rows()] == list(range(1, step + 1))
    samples = checkpoints._outputs / "samples.jsonl"
    assert (samples.read_text().split() if step else []) == [str(number) for number in range(1, step + 1)]
    return step, checkpoints


def work_until_killed(store: Store, scratch: Path, told: int) -> None:
    step, checkpoints = check(store, scratch, 0)
    os.write(told, b"0\n")
    while True:
        step += 1
        begin(checkpoints, step, lambda step=step: os.write(told, f"{step}\n".encode()))


@pytest.mark.parametrize("kind, kills", [("directory", 25), ("s3", 5)])
def test_a_kill_at_any_instant_of_the_writer_loses_no_committed_step(kind, kills, tmp_path, request):
    store = open_store(str(tmp_path / "store") if kind == "directory" else request.getfixturevalue("s3_uri"))
    store.get("actions/none.json")
    draw, acknowledged = random.Random(5), 0
    for kill in range(kills):
        heard, told = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                work_until_killed(store, tmp_path / f"attempt-{kill}", told)
            finally:
                os._exit(1)
        os.close(told)
        with os.fdopen(heard, "rb", buffering=0) as stream:
            assert stream.read(2) == b"0\n"
            said = stream.read(3) if kill % 5 == 0 else b""  # now and then at least one checkpoint
            time.sleep(draw.uniform(0, 0.1))  # the instant of death is what is drawn at random here
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            steps = [int(line) for line in (said + stream.read()).splitlines(keepends=True) if line.endswith(b"\n")]
        acknowledged = max([acknowledged, *steps])
        check(store, tmp_path / f"check-{kill}", acknowledged)
    assert acknowledged > 0
    store.sweep(min_age_seconds=-10)
    check(store, tmp_path / "check-swept", acknowledged)


def test_the_stage_goes_on_while_a_checkpoint_is_written(tmp_path: Path) -> None:
    checkpoints, store = checkpoints_of(store := open_store(str(tmp_path / "store")), tmp_path / "a"), store
    may_finish, weights, order = threading.Event(), [1], []

    def write(folder: Path):
        snapshot = list(weights)

        def finish() -> None:
            assert may_finish.wait(30)
            (folder / "weights").write_text(json.dumps(snapshot))

        return finish

    checkpoints.begin(1, write, {}, lambda: order.append("committed"))
    weights[0] = 2
    order.append("next step")
    may_finish.set()
    checkpoints.wait()
    assert order == ["next step", "committed"]
    checkpoints_of(store, tmp_path / "b").restore(pytest.fail)
    assert (tmp_path / "b" / "resume" / "stage" / "weights").read_text() == "[1]"


def test_only_one_is_written_at_a_time(tmp_path: Path) -> None:
    checkpoints = checkpoints_of(open_store(str(tmp_path / "store")), tmp_path / "a")
    at_work: list[int] = []

    def write_of(step: int):
        def finish() -> None:
            at_work.append(step)
            assert at_work == [step]
            at_work.remove(step)

        return lambda folder: finish

    for step in range(1, 20):
        checkpoints.begin(step, write_of(step), {}, lambda: None)
    checkpoints.wait()


def test_a_failing_writer_is_told_at_the_next_call_and_the_last_checkpoint_stays(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "store"))
    checkpoints = checkpoints_of(store, tmp_path / "a")
    begin(checkpoints, 1)
    checkpoints.wait()

    def write(folder: Path):
        def finish() -> None:
            raise OSError(28, "No space left on device")

        return finish

    checkpoints.begin(2, write, {}, lambda: pytest.fail("it was not committed"))
    checkpoints.join()
    with pytest.raises(StoreUnavailable, match=r"checkpoint of step 2 cannot be written: .*No space left.*run again"):
        checkpoints.check()
    checkpoints.check()  # once is enough
    assert check(store, tmp_path / "b", 1)[0] == 1


def test_a_full_disk_ends_the_stage_with_one_line_and_keeps_the_last_checkpoint(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "store"))
    checkpoints = checkpoints_of(store, tmp_path / "a")
    begin(checkpoints, 1)
    checkpoints.wait()
    heard, told = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (WEIGHTS // 2, resource.RLIM_INFINITY))
            begin(checkpoints, 2)
            checkpoints.wait()
        except StoreUnavailable as error:
            os.write(told, str(error).encode())
        finally:
            os._exit(0)
    os.close(told)
    with os.fdopen(heard, "rb") as stream:
        said = stream.read().decode()
    os.waitpid(child, 0)
    assert "File too large" in said and "checkpoint of step 2" in said and "run again" in said
    assert check(store, tmp_path / "b", 1)[0] == 1


def test_a_checkpoint_is_due_by_time_or_when_it_costs_next_to_nothing(tmp_path: Path, monkeypatch) -> None:
    now = [1000.0]
    monkeypatch.setattr("components.runtime.checkpoints.checkpoints.time.monotonic", lambda: now[0])
    checkpoints = checkpoints_of(open_store(str(tmp_path / "store")), tmp_path / "a")
    now[0] += 9.9
    assert not checkpoints.is_due(None) and not checkpoints.is_due(30.0)
    now[0] += 20.1
    assert checkpoints.is_due(None) and checkpoints.is_due(30.0)
    may_finish = threading.Event()
    checkpoints.begin(1, lambda folder: lambda: may_finish.wait(30) and None, {}, lambda: None)
    now[0] += 1000
    assert not checkpoints.is_due(None) and not checkpoints.is_due(30.0)  # one is being written
    may_finish.set()
    checkpoints.wait()
    checkpoints.seconds = 21.0
    assert checkpoints.is_due(30.0) and not checkpoints.is_due(None)
    now[0] += 51
    assert checkpoints.is_due(None)  # 21 s in 1,051 s


def test_sigterm_waits_for_the_writer(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "store"))
    may_finish, finishing = os.pipe()
    heard, told = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a command that ran in this process may have set another
            checkpoints = checkpoints_of(store, tmp_path / "a")

            def write(folder: Path):
                def finish() -> None:
                    os.write(told, b"!")
                    os.read(may_finish, 1)
                    (folder / "weights").write_text("whole")

                return finish

            checkpoints.begin(1, write, {}, lambda: None)
            signal.pause()
            time.sleep(60)
        finally:
            os._exit(0)
    assert os.read(heard, 1) == b"!"
    os.kill(child, signal.SIGTERM)
    assert os.waitpid(child, os.WNOHANG) == (0, 0)
    os.write(finishing, b"!")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGTERM
    assert checkpoints_of(store, tmp_path / "b").restore(pytest.fail) is not None
    assert (tmp_path / "b" / "resume" / "stage" / "weights").read_text() == "whole"


def pod_stage(store: Store, folder: Path, *, checkpoints_made: bool) -> int:
    """Return the process of a stage in a pod that works, and makes a checkpoint when one is due."""
    ready, told = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.environ["POSTTRAIN_GRACE_SECONDS"] = "30" if checkpoints_made else "1"
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            checkpoints = checkpoints_of(store, folder)
            os.write(told, b"!")
            for step in range(1, 10_000):
                if checkpoints_made and checkpoints.is_due(math.inf):
                    checkpoints.begin(step, lambda folder: (folder / "weights").write_text("last") and None, {}, bool)
                time.sleep(0.005)
        finally:
            os._exit(0)
    assert os.read(ready, 1) == b"!"
    return child


@pytest.mark.parametrize("checkpoints_made", [True, False])
def test_sigterm_in_a_pod_asks_for_a_last_checkpoint(tmp_path: Path, checkpoints_made: bool) -> None:
    store = open_store(str(tmp_path / "store"))
    child = pod_stage(store, tmp_path / "a", checkpoints_made=checkpoints_made)
    os.kill(child, signal.SIGTERM)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code == (-signal.SIGTERM if checkpoints_made else 128 + signal.SIGTERM)
    found = checkpoints_of(store, tmp_path / "b").restore(pytest.fail)
    assert (found is not None) == checkpoints_made
    if checkpoints_made:
        assert (tmp_path / "b" / "resume" / "stage" / "weights").read_text() == "last"


def test_a_server_that_dies_in_an_upload_is_told_and_the_checkpoint_before_is_whole(
    fault_proxy, s3_uri: str, tmp_path: Path
) -> None:
    proxy = fault_proxy(share=0)
    bucket, _, prefix = s3_uri.removeprefix("s3://").partition("/")
    store = Store(S3Blobs(bucket, prefix, S3Calls(bucket, s3_uri, patience_seconds=0.2, read_seconds=20)))
    checkpoints = checkpoints_of(store, tmp_path / "a")
    begin(checkpoints, 1)
    checkpoints.wait()
    before = list(store.blobs.keys("partial/"))
    proxy.plan("drop", method="PUT", path="manifest.json", times=100)  # after all pieces
    begin(checkpoints, 2)
    with pytest.raises(StoreUnavailable, match="store s3://"):
        checkpoints.wait()
    assert len(list(store.blobs.keys("partial/"))) > len(before)
    assert check(store, tmp_path / "b", 1)[0] == 1
    store.sweep(min_age_seconds=-10)
    assert list(store.blobs.keys("partial/")) == before


def test_files_that_did_not_change_are_neither_copied_nor_read(tmp_path: Path) -> None:
    folder = tmp_path / "outputs"
    folder.mkdir()
    old, racy, final = folder / "old", folder / "racy", folder / "final"
    for path in (old, racy, final):
        path.write_text(path.name)
    final.chmod(0o444)
    os.utime(old, (1, 1))
    os.utime(final, (1, 1))
    changes = Changes(folder)
    assert changes.copy(tmp_path / "first", ()) == []
    assert (tmp_path / "first" / "final").samefile(final) and not (tmp_path / "first" / "old").samefile(old)
    stored = {"old", "racy", "final"}
    kept = changes.copy(tmp_path / "second", stored)
    assert sorted(kept) == ["final", "old"] and [path.name for path in (tmp_path / "second").iterdir()] == ["racy"]
    old.write_text("new")
    assert changes.copy(tmp_path / "third", stored) == ["final"]
    assert (tmp_path / "third" / "old").read_text() == "new"
