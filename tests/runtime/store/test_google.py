"""The store on Google Cloud Storage: conditional writes hold in Google's words; in Amazon's they would not."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from components.contract.artifacts import ArtifactType
from components.contract.errors import StoreUnavailable
from components.runtime.store import Store, open_store, s3_google
from components.runtime.store.lease import Lease
from components.runtime.store.s3 import S3Blobs
from tests.support.google_storage import TOKEN, Google
from tests.support.s3_server import local_s3, make_bucket, s3_environment

BUCKET = "posttrain-google"


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[str, Google]]:
    """A server that speaks as Google does, with a bucket."""
    made: list[Google] = []

    def around(app):
        made.append(Google(app))
        return made[0]

    with local_s3(around=around) as endpoint:
        make_bucket(endpoint, BUCKET)
        yield endpoint, made[0]


@pytest.fixture
def google(server: tuple[str, Google], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Google:
    """The server, to which the environment points, with an identity and without a key."""
    for name, value in s3_environment(server[0], tmp_path / "cache").items():
        if "KEY" not in name:
            monkeypatch.setenv(name, value)
    monkeypatch.setenv(s3_google.DIALECT, "google")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)
    identity = SimpleNamespace(valid=True, token=TOKEN)
    monkeypatch.setattr(s3_google, "_identity", lambda: identity)
    server[1].seen.clear()
    return server[1]


@pytest.fixture
def store(google: Google) -> Store:
    """An empty store there."""
    return open_store(f"s3://{BUCKET}/{uuid.uuid4().hex[:12]}")


def test_of_many_writers_one_wins_and_amazons_words_would_let_all_win(
    store: Store, google: Google, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(lambda number: store.blobs.create("record", b"%d" % number), range(8))) == 1
    # the same request as it is written for Amazon: Google's answer is a success each time
    monkeypatch.setattr(s3_google, "_make_conditional", lambda headers: None)
    assert store.blobs.create("record", b"again"), "else this server is not like Google's"


def test_a_lease_has_one_holder_and_is_taken_over_once_it_is_old(store: Store) -> None:
    blobs = store.blobs
    assert isinstance(blobs, S3Blobs)
    first, second, third = (Lease(blobs.calls, f"{blobs.prefix}locks/x.json", seconds) for seconds in (30, 30, -5))
    assert first.take() is None
    seen = second.take()
    assert seen is not None and seen.owner == first.owner
    assert first.renew() and first.renew()
    assert third.take() is None, "expired, by its measure"
    assert not first.renew(), "its version is another one now"
    assert third.renew()
    first.release()
    assert third.look() is not None
    third.release()
    assert third.look() is None


def test_artifacts_keep_their_digests_and_their_metadata(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    (folder / "deep").mkdir(parents=True)
    (folder / "a.bin").write_bytes(b"\x00" * 4096)
    (folder / "deep" / "b & c.txt").write_text("text")
    digest = store.commit(ArtifactType.MODEL, folder).digest
    again = open_store(store.blobs.uri)
    found = again.fetch(digest)
    assert sorted(path.name for path in found.rglob("*") if path.is_file()) == ["a.bin", "b & c.txt"]
    assert store.commit(ArtifactType.MODEL, folder).digest == digest


def test_large_files_go_in_parts_and_their_sums_are_google_s(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, google: Google
) -> None:
    parts = 5 << 20  # the least that S3 takes for a part
    for module in ("s3", "s3_objects"):
        monkeypatch.setattr(f"components.runtime.store.{module}.PART_BYTES", parts)
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "large.bin").write_bytes(bytes(range(256)) * (3 * parts // 256))
    digest = store.commit(ArtifactType.MODEL, folder).digest
    found = open_store(store.blobs.uri).fetch(digest)
    assert (found / "large.bin").read_bytes() == (folder / "large.bin").read_bytes()
    assert not [headers for headers in google.seen if any(name.startswith("HTTP_X_AMZ_") for name in headers)]
    assert sum("HTTP_CONTENT_MD5" in headers for headers in google.seen) >= 4


def test_objects_are_listed_moved_and_deleted(store: Store) -> None:
    for number in range(7):
        store.blobs.write(f"old/{number}", b"x")
    store.blobs.move("old", "new")
    assert sorted(store.blobs.keys("")) == [f"new/{number}" for number in range(7)]
    store.blobs.delete([f"new/{number}" for number in range(6)])
    assert list(store.blobs.keys("")) == ["new/6"]
    assert store.blobs.read("new/6") == b"x"
    assert store.blobs.read("absent") is None


def test_a_record_is_written_once_by_threads_that_race(store: Store) -> None:
    barrier, won = threading.Barrier(6), []

    def write(number: int) -> None:
        barrier.wait()
        if store.blobs.create("ledger/one", b"%d" % number):
            won.append(number)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(6)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert len(won) == 1
    assert store.blobs.read("ledger/one") == b"%d" % won[0]


def test_a_token_is_renewed_and_its_absence_is_told(google: Google, monkeypatch: pytest.MonkeyPatch) -> None:
    from google.auth.exceptions import DefaultCredentialsError

    identity = SimpleNamespace(valid=False, token="old")
    renewals = []

    def refresh(_request: object) -> None:
        renewals.append(1)
        identity.valid, identity.token = True, TOKEN

    identity.refresh = refresh
    monkeypatch.setattr(s3_google, "_identity", lambda: identity)
    store = open_store(f"s3://{BUCKET}/tokens")
    store.blobs.write("a", b"1")
    store.blobs.write("a", b"2")
    assert (store.blobs.read("a"), renewals) == (b"2", [1])

    def nobody() -> None:
        raise DefaultCredentialsError("no\ncredentials")

    monkeypatch.setattr(s3_google, "_identity", nobody)
    with pytest.raises(StoreUnavailable, match=r"no identity .*: no credentials\. .*workload identity"):
        store.blobs.read("a")


@pytest.mark.parametrize(
    ("endpoint", "found"),
    [
        ("https://storage.googleapis.com", True),
        ("https://storage.googleapis.com.evil.example", False),
        ("http://minio:9000", False),
        ("", False),
    ],
)
def test_google_is_known_by_its_address(endpoint: str, found: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(s3_google.DIALECT, raising=False)
    assert s3_google.is_google(endpoint) is found
