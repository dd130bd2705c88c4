"""The collector beside commits and reuse, in every order of their calls: whoever was told "it is there" has it."""

from __future__ import annotations

import uuid
from functools import partial

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from components.contract.artifacts import ArtifactType
from components.runtime.store import Store, collecting, open_store
from components.runtime.upkeep.collect import delete_garbage, find_garbage, only_collector
from components.runtime.upkeep.selection import Rules
from tests.runtime.upkeep.stepping import SteppedBlobs, Turns

HOUR = Rules(grace_seconds=3600.0)
COLLECTOR, COMMITTER, USER = range(3)
STRETCHES = st.tuples(st.sampled_from([COLLECTOR, COMMITTER, USER]), st.integers(1, 30))
ORDERS = st.lists(STRETCHES, max_size=16).map(lambda parts: [one for one, steps in parts for _ in range(steps)])
"""Long stretches of one, so that another comes between any two of its calls, the late ones too."""


def folder_with(tmp_path, text):
    folder = tmp_path / uuid.uuid4().hex
    folder.mkdir()
    for part in range(2):
        (folder / f"part-{part}").write_text(f"{text} {part}")
    return folder


def collect(store):
    with only_collector(store):
        delete_garbage(store, find_garbage(store, HOUR), HOUR)


def publish(store, run_id, digest):
    """Tell that a stage of a run made an artifact, as the launcher does."""
    store.put(f"ledger/{run_id}/run.json", {"recipe": "r", "started": "2026-01-01T00:00:00+00:00", "stages": []})
    entry = {"stage": "s", "run_id": run_id, "fingerprint": None, "cache": "miss", "inputs": {}, "gates": {}}
    started = {"started": "2026-01-01T00:00:00+00:00"}
    store.put(f"ledger/{run_id}/stages/s.json", {**entry, **started, "outputs": {"out": {"digest": digest}}})


def one_interleaving(uri, tmp_path, order, orphaned):
    plain = open_store(uri)
    digest = plain.commit(ArtifactType.MODEL, folder_with(tmp_path, "same")).digest
    lost = plain.commit(ArtifactType.MODEL, folder_with(tmp_path, "lost")).digest
    if orphaned:  # an earlier collector was killed between the manifest and the files
        plain.blobs.write(f"collecting/{digest}", b"")
        plain.blobs.delete([f"objects/{digest}/manifest.json"])
    turns, aged = Turns(order, 3), {blob.key for blob in plain.blobs.list("objects/")}
    store = Store(SteppedBlobs(plain.blobs, turns, aged))
    told = []

    def commit():
        made = store.commit(ArtifactType.MODEL, folder_with(tmp_path, "same")).digest
        publish(store, "committed", made)
        told.append(made)

    def use():
        if store.use(digest):
            publish(store, "used", digest)
            told.append(digest)

    errors = turns.run([partial(collect, store), commit, use])
    assert not errors
    for promised in told:
        assert {path.name for path in plain.fetch(promised).iterdir()} == {"part-0", "part-1"}
    assert COMMITTER and digest in told
    assert lost not in set(plain.digests()), "the collector did its work all the same"
    collect(Store(SteppedBlobs(plain.blobs, turns, set(aged) | {b.key for b in plain.blobs.list("objects/")})))
    assert plain.look(digest).manifest and not plain.look(digest).damage, "a run reaches it now"


@pytest.mark.parametrize("kind", ["directory", pytest.param("s3", marks=pytest.mark.slow)])
def test_what_was_promised_is_there_in_every_order(kind, tmp_path, request, monkeypatch):
    monkeypatch.setattr(collecting, "WAIT_SECONDS", 0.001)  # whoever waits here waits for the others' turns
    base = str(tmp_path / "stores") if kind == "directory" else request.getfixturevalue("s3_uri")

    @settings(
        max_examples=100 if kind == "directory" else 25,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(order=ORDERS, orphaned=st.booleans())
    def check(order, orphaned):
        one_interleaving(f"{base}/{uuid.uuid4().hex[:8]}", tmp_path, order, orphaned)

    check()
