"""SIGKILL of the collector at random instants: what is reached stays whole, and the next collection goes on."""

from __future__ import annotations

import os
import random
import signal
import time

import pytest

from components.contract.artifacts import ArtifactType
from components.runtime.store import Store, open_store
from components.runtime.upkeep.collect import delete_garbage, find_garbage, only_collector
from components.runtime.upkeep.selection import Rules
from components.runtime.upkeep.verify import verify
from tests.runtime.upkeep.conftest import OLD, outputs

KILLS = {"directory": 25, "s3": 3}
GARBAGE = 12
"""Artifacts that nothing reaches, made before each kill."""
RULES = Rules(keep_last=1, undelivered=True, grace_seconds=OLD)


def collect(store):
    with only_collector(store):
        found = find_garbage(store, RULES)
        delete_garbage(store, found, RULES)


def make_garbage(store, tmp_path, name):
    for number in range(GARBAGE):
        folder = tmp_path / f"{name}-{number}"
        folder.mkdir()
        for part in range(3):
            (folder / f"part-{part}").write_text(f"{name} {number} {part}")
        store.commit(ArtifactType.MODEL, folder)


class Mortal:
    """Blobs whose process is killed at a change of the storage: where one takes long, time does not hit any."""

    def __init__(self, blobs, changes: int) -> None:
        self._blobs, self._left = blobs, changes

    def __getattr__(self, name):
        if name in ("write", "delete"):
            self._left -= 1
            if self._left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return getattr(self._blobs, name)


def kill_one_collector(store, life: float | None, changes: int | None = None) -> float:
    """Start a collector, kill it after `life` seconds or some changes, or let it end; return how long it lived."""
    heard, told = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            store.get("actions/none.json")  # the S3 client is made now, not within the collector's short life
            os.write(told, b"ready")
            collect(store if changes is None else Store(Mortal(store.blobs, changes)))
            os._exit(0)
        finally:  # whatever it raised
            os._exit(1)
    os.close(told)
    os.read(heard, 5)
    started = time.monotonic()
    if life is not None:
        time.sleep(life)  # the instant of death is what is drawn at random here
        os.kill(child, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, -signal.SIGKILL)
    os.close(heard)
    return time.monotonic() - started


@pytest.mark.parametrize("kind", ["directory", pytest.param("s3", marks=pytest.mark.slow)])
def test_a_killed_collector_leaves_a_whole_store_and_the_next_goes_on(kind, tmp_path, request, run, monkeypatch):
    monkeypatch.setattr("components.runtime.store.lease.LEASE_SECONDS", 0.3)  # that of a killed holder runs out
    monkeypatch.setattr("components.runtime.store.lease.hold_lease.__defaults__", (0.3,))
    monkeypatch.setattr("components.runtime.store.lease.lease_is_held.__defaults__", (0.3,))
    store = open_store(str(tmp_path / "store") if kind == "directory" else request.getfixturevalue("s3_uri"))
    kept = run(store, "kept", steps=9, started=2e9)
    make_garbage(store, tmp_path, "measure")
    whole = kill_one_collector(store, None)
    chance = random.Random(13)
    cut = 0
    for kill in range(KILLS[kind]):
        run(store, f"run-{kill}", steps=2 + kill % 2, started=1e9 + kill)
        make_garbage(store, tmp_path, f"kill-{kill}")
        before = set(store.digests())
        if kind == "directory" and kill % 2:
            kill_one_collector(store, chance.uniform(0.1, 1.5) * whole)
        else:
            kill_one_collector(store, None, chance.randrange(60))
        gone = before - set(store.digests())
        cut += bool(gone) and bool(find_garbage(store, RULES).heaps["artifacts"].units)
        for digest in outputs(kept):
            assert store.fetch(digest).is_dir()
        found = verify(store)
        assert found.damage == [], "what is seen is whole"
    collect(store)
    assert cut, "some died in the middle"
    again = run(store, "again", steps=9, started=3e9)
    assert (again["cache"], again["outputs"]) == ("hit", kept["outputs"])
    collect(store)
    reached = {run_id.split("/")[1] for run_id in store.keys("ledger/")}
    assert reached == {"again"} | {run_id for run_id in reached if run_id == "kept"}
    left = [blob.key for blob in store.blobs.list("")]
    assert not [key for key in left if key.startswith(("collecting/", "tmp/"))]
    trees = {key.rpartition("/files/")[0] for key in left if "/files/" in key}
    assert trees == {key.removesuffix("/manifest.json") for key in left if key.endswith("/manifest.json")}
