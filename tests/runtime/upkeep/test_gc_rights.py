"""Stages and gc on one bucket, each with the rights that the cloud gives its account: both do their work, no more."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from components.contract.artifacts import ArtifactType
from components.contract.errors import StoreUnavailable
from components.runtime.store import Store, open_store
from components.runtime.upkeep.collect import delete_garbage, find_garbage, only_collector
from components.runtime.upkeep.selection import Rules
from components.runtime.upkeep.verify import verify
from tests.runtime.upkeep.conftest import OLD, Run, outputs
from tests.support.s3_rights import account_rights
from tests.support.s3_server import local_s3, make_bucket, s3_environment


@pytest.fixture
def accounts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Store]]:
    """One bucket, opened by each account at a door of its own."""
    bucket, stores = f"accounts-{uuid.uuid4().hex[:8]}", {}
    with ExitStack() as doors:
        for account in ("stage", "gc"):
            endpoint = doors.enter_context(local_s3(rights=account_rights()[account]))
            if not stores:
                make_bucket(endpoint, bucket)
            for name, value in s3_environment(endpoint, tmp_path / account).items():
                monkeypatch.setenv(name, value)
            stores[account] = open_store(f"s3://{bucket}/store")
            list(stores[account].keys("ledger/"))  # the client takes the address when it is first used
        yield stores


def test_gc_deletes_what_a_stage_made_and_a_stage_cannot(accounts: dict[str, Store], run: Run) -> None:
    stage, gc = accounts["stage"], accounts["gc"]
    old = run(stage, "test-1", steps=2)
    new = run(stage, "test-2", steps=3, started=2e9)
    rules = Rules(keep_last=1, undelivered=True, grace_seconds=OLD)
    with pytest.raises(StoreUnavailable, match="AccessDenied"), only_collector(stage):
        delete_garbage(stage, find_garbage(stage, rules), rules)
    assert stage.get("ledger/test-1/run.json")
    with only_collector(gc):
        delete_garbage(gc, find_garbage(gc, rules), rules)
    assert gc.get("ledger/test-1/run.json") is None
    assert outputs(old) - set(gc.digests())
    assert outputs(new) <= set(gc.digests())
    assert not list(gc.blobs.list("locks/")) and not list(gc.blobs.list("collecting/"))


def test_gc_makes_no_artifact_sets_damage_aside_and_heals_records(
    accounts: dict[str, Store], run: Run, tmp_path: Path
) -> None:
    stage, gc = accounts["stage"], accounts["gc"]
    made = run(stage, "test-1")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "weights").write_bytes(b"w")
    with pytest.raises(StoreUnavailable, match="AccessDenied"):
        gc.commit(ArtifactType.MODEL, tmp_path / "model")
    record = "ledger/test-1/run.json"
    stage.blobs.write(record, b"damaged")
    digest = min(outputs(made))
    file = next(blob.key for blob in stage.blobs.list(f"objects/{digest}/files/"))
    stage.blobs.write(file, b"damaged")
    found = verify(gc, None, repair=True, progress=lambda done, total: None)
    assert {item.key for item in found.damage} == {record, f"objects/{digest}"}
    assert gc.get(record) and not gc.has(digest)
    assert [blob for blob in gc.blobs.list("quarantine/") if digest in blob.key]
