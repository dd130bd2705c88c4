"""What infra/terraform lets an account do with the bucket suffices for its work, and keeps it from other objects."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from components.contract.artifacts import ArtifactType
from components.contract.errors import StoreUnavailable
from components.runtime.store import Store, open_store
from tests.support.partials import newest_partial
from tests.support.s3_rights import account_rights
from tests.support.s3_server import local_s3, make_bucket, s3_environment

Folder = Callable[[dict[str, bytes]], Path]


@pytest.fixture
def stage_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """A bucket in which one may do what a stage's pod may."""
    bucket = f"rights-{uuid.uuid4().hex[:8]}"  # servers of one process share what they hold
    with local_s3(rights=account_rights()["stage"]) as endpoint:
        make_bucket(endpoint, bucket)
        for name, value in s3_environment(endpoint, tmp_path / "cache").items():
            monkeypatch.setenv(name, value)
        yield open_store(f"s3://{bucket}/store")


def test_the_rights_of_all_accounts_are_found() -> None:
    assert account_rights().keys() == {"stage", "engine", "airflow", "lineage", "gc", "mlflow"}


def test_a_stage_does_all_of_its_work_with_its_rights(stage_store: Store, folder: Folder) -> None:
    store = stage_store
    with store.lock("work", wait_seconds=0):
        made = store.commit(ArtifactType.MODEL, folder({"weights": b"w" * 1000}))
        assert store.put("actions/one.json", {"made": made.digest})
        assert store.put("ledger/run/state.json", {"n": 1}, overwrite=True)
        assert store.put("ledger/run/state.json", {"n": 2}, overwrite=True)
    with store.lock("work", wait_seconds=0):  # it was freed
        pass
    for step in (1, 2, 3):
        store.partials("job").save(step, folder({"state": b"%d" % step}))
    newest = newest_partial(store, "job")
    assert newest and newest[0] == 3
    newest_keys = [blob.key for blob in store.blobs.list("partial/job/000000000003")]
    (manifest,) = (key for key in newest_keys if key.endswith("manifest.json"))
    store.blobs.write(manifest, b"damaged")
    earlier = newest_partial(store, "job")
    assert earlier and earlier[0] == 2
    assert not list(store.blobs.list("partial/job/000000000003"))
    store.partials("job").drop()
    assert not list(store.blobs.list("partial/"))
    assert store.fetch(made.digest).joinpath("weights").read_bytes() == b"w" * 1000


@pytest.mark.parametrize("key", ["objects", "actions/one.json", "ledger/run/state.json"])
def test_a_stage_deletes_no_artifact_and_no_record(stage_store: Store, folder: Folder, key: str) -> None:
    store = stage_store
    made = store.commit(ArtifactType.MODEL, folder({"weights": b"w"}))
    store.put("actions/one.json", {"made": made.digest})
    store.put("ledger/run/state.json", {"n": 1})
    before = [blob.key for blob in store.blobs.list("")]
    with pytest.raises(StoreUnavailable, match=r"could not be removed \(AccessDenied: s3://rights-[0-9a-f]+/store/"):
        store.blobs.delete(blob.key for blob in store.blobs.list(key))
    assert [blob.key for blob in store.blobs.list("")] == before
