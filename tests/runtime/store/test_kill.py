"""SIGKILL at random instants: nothing half-made is ever visible, and nothing acknowledged is ever lost."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest

from components.contract.artifacts import ArtifactType
from components.runtime.store import Store, open_store
from components.runtime.store.trees import read_manifest
from tests.support.partials import newest_partial

KILLS = {"directory": 48, "s3": 10}
LONGEST_LIFE = 2.5
"""In rounds of the writer, whose time is measured first."""
READY = b"ready\n"


def content_of(step: int) -> dict[str, bytes]:
    """Return the files of step `step`: several, so that a commit has many instants at which to die."""
    return {f"part-{part}/weights": f"{step}/{part};".encode() * 3000 for part in range(4)}


def write_forever(store: Store, first: int, scratch: Path, told: int) -> None:
    """Commit, record and save partials from step `first` on, telling each finished step through a pipe."""
    store.get("actions/none.json")  # the S3 client is made now, not within the writer's short life
    os.write(told, READY)
    step = first
    while True:
        for purpose in ("artifact", "partial"):
            folder = scratch / f"{step}-{purpose}"
            for name, data in content_of(step).items():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_bytes(data)
        digest = store.commit(ArtifactType.MODEL, scratch / f"{step}-artifact", {"step": step}).digest
        record = {"step": step, "digest": digest, "long": "x" * 50_000}
        store.put(f"actions/{step:06d}.json", record, overwrite=True)
        store.partials("job").save(step, scratch / f"{step}-partial")
        os.write(told, f"{step}\n".encode())
        step += 1


def kill_one_writer(store: Store, first: int, scratch: Path, life: float | None) -> tuple[int, float]:
    """Start a writer, kill it after `life` seconds, or after its first step; return its last step and the time."""
    heard, told = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            write_forever(store, first, scratch, told)
        finally:
            os._exit(1)
    os.close(told)
    os.read(heard, len(READY))
    started = time.monotonic()
    said = b""
    if life is None:
        said = os.read(heard, 100)
    else:
        time.sleep(life)  # the instant of death is what is drawn at random here
    seconds = time.monotonic() - started
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with os.fdopen(heard, "rb") as rest:
        steps = [int(line) for line in (said + rest.read()).splitlines(keepends=True) if line.endswith(b"\n")]
    return (steps[-1] if steps else first - 1), seconds


def check_everything(store: Store, acknowledged: int) -> None:
    """Read all that is visible: every artifact, record and partial must be whole and right."""
    visible = {}
    for digest in store.digests():
        step = store.manifest(digest).metadata["step"]
        root = store.fetch(digest)
        assert {f"{p.parent.name}/{p.name}": p.read_bytes() for p in root.rglob("weights")} == content_of(step)
        visible[step] = digest
    assert set(range(acknowledged + 1)) <= set(visible)
    for key in store.keys("actions/"):
        record = store.get(key)
        assert record is not None and visible[record["step"]] == record["digest"]
    found = newest_partial(store, "job")
    assert (found is not None) or acknowledged < 0
    if found:
        step, root = found
        assert step >= acknowledged
        assert {f"{p.parent.name}/{p.name}": p.read_bytes() for p in root.rglob("weights")} == content_of(step)


@pytest.mark.parametrize("kind", ["directory", "s3"])
def test_killed_writers_leave_nothing_half_visible(kind, tmp_path, request):
    uri = str(tmp_path / "store") if kind == "directory" else request.getfixturevalue("s3_uri")
    store = open_store(uri)
    draw = random.Random(7)
    acknowledged, round_seconds = kill_one_writer(store, 0, tmp_path / "scratch", None)
    for kill in range(KILLS[kind]):
        scratch = tmp_path / f"scratch-{kill}"
        life = draw.uniform(0, LONGEST_LIFE * round_seconds)
        before = acknowledged
        acknowledged, _ = kill_one_writer(store, before + 1, scratch, life)
        if acknowledged == before:
            round_seconds *= 1.2  # a busy machine: otherwise no writer would ever get to its end
        if kill % 10 == 9:
            check_everything(store, acknowledged)
    assert acknowledged > 0
    check_everything(store, acknowledged)

    store.sweep(min_age_seconds=-10)
    check_everything(store, acknowledged)
    left = [blob.key for blob in store.blobs.list("")]
    assert not [key for key in left if key.startswith("tmp/")]
    trees = {key.rpartition("/files/")[0] for key in left if "/files/" in key}
    whole = {key.removesuffix("/manifest.json") for key in left if key.endswith("/manifest.json")}
    assert trees == {prefix for prefix in whole if prefix.startswith("objects/")}
    held = [read_manifest(store.blobs, tree, tree.rpartition("-")[2]) for tree in whole - trees]
    pieces = {entry.sha256 for manifest in held if manifest for entry in manifest.files}
    assert {key.rpartition("/")[2] for key in left if "/pieces/" in key} == pieces
