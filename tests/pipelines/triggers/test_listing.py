"""What is there, what has changed, and what the last run has seen: objects, files, models; odd names, dead servers."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.contract.errors import InputError, StoreUnavailable
from components.runtime.lineage.registry import register_model
from components.runtime.store import open_store
from components.runtime.store.s3_objects import objects_digest
from pipelines.recipe.schedule.section import Watched, watched
from pipelines.triggers import listing as listings
from pipelines.triggers.change import MAX_NAMED, Change, digest
from pipelines.triggers.listing import Lister
from pipelines.triggers.record import by_assets, by_data
from pipelines.triggers.seen import Seen
from tests.support.s3_server import in_memory_writer

BUCKET = "posttrain-test"
Put = Callable[[str, bytes], object]


@pytest.fixture
def prefix(s3_uri: str) -> str:
    """A prefix of odd characters in a bucket of the server."""
    return f"{s3_uri}/in put/ü+&#?%20"


@pytest.fixture
def put(prefix: str) -> Put:
    """Put objects below the prefix, without requests."""
    bucket, _, below = prefix.removeprefix("s3://").partition("/")
    return in_memory_writer(bucket, below)


def test_thousands_of_objects_below_an_odd_prefix(prefix: str, put: Put) -> None:
    item, lister = watched(f"{prefix}/", None), Lister()
    assert lister.list(item) == {}, "an empty prefix"
    for number in range(1100):
        put(f"rows-{number}.jsonl", b"x")
    put("folder/", b"")
    put("a\x1b[31mb", b"1")
    put("deep/er.jsonl", b"1")
    found = lister.list(item)
    assert len(found) == 1102 and "folder/" not in found
    assert {"a\x1b[31mb", "deep/er.jsonl", "rows-1099.jsonl"} <= found.keys()
    change = Change.between(item, {}, found)
    assert change.words == f"{prefix}/: 1,102 new (a\\x1b[31mb, deep/er.jsonl, rows-0.jsonl ...)"
    told = change.to_json()
    assert (len(told["new"]), told["num_new"], told["count"]) == (MAX_NAMED, 1102, 1102)


def test_the_same_size_with_other_bytes_is_a_change(prefix: str, put: Put) -> None:
    put("a", b"1")
    lister = Lister()
    one, folder = watched(f"{prefix}/a", None), watched(f"{prefix}/", None)
    before, digest_before = {item: lister.list(item) for item in (one, folder)}, objects_digest(f"{prefix}/")
    put("b", b"2")
    assert lister.list(one) == before[one] and list(before[one]) == ["a"], "another object is none of its business"
    put("a", b"2")
    assert Change.between(one, before[one], lister.list(one)).replaced == ("a",)
    assert Change.between(folder, before[folder], lister.list(folder)).words.endswith("1 new, 1 replaced (b, a)")
    assert objects_digest(f"{prefix}/") != digest_before
    assert objects_digest(f"{prefix}/a") != objects_digest(f"{prefix}/b")


def test_a_folder_and_an_object_of_one_name_are_both_watched_without_the_slash(prefix: str, put: Put) -> None:
    for name in ("a", "a/b", "ab"):
        put(name, b"1")
    assert Lister().list(watched(f"{prefix}/a", None)).keys() == {"a", "a/b"}
    assert Lister().list(watched(f"{prefix}/a/", None)).keys() == {"b"}


def test_a_server_that_is_away_or_has_no_such_bucket_is_said(s3_uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StoreUnavailable, match=r"NoSuchBucket.*make the bucket"):
        Lister().list(watched("s3://no-such-bucket/x/", None))
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setattr(listings, "PATIENCE_SECONDS", 0.0)
    with pytest.raises(StoreUnavailable, match="could not be used"):
        Lister().list(watched("s3://bucket/x/", None))


def test_files_change_by_their_content_not_by_their_time(tmp_path: Path) -> None:
    rows = tmp_path / "rows"
    item, lister = watched("./rows", tmp_path), Lister()
    assert lister.list(item) == {}
    rows.mkdir()
    (rows / "a").write_text("1")
    before = lister.list(item)
    os.utime(rows / "a", (1, 1))
    assert lister.list(item) == before
    state = (rows / "a").stat()
    (rows / "a").write_text("2")
    os.utime(rows / "a", ns=(state.st_atime_ns, state.st_mtime_ns))
    assert Change.between(item, before, lister.list(item)).replaced == ("a",), "same size and time, other content"


def test_pipes_circles_and_names_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "rows").mkdir()
    os.mkfifo(tmp_path / "rows" / "pipe")
    (tmp_path / "rows" / "circle").symlink_to(tmp_path)
    (tmp_path / "rows" / os.fsdecode(b"\xff\x1b")).write_text("1")
    item, store = watched("rows", tmp_path), open_store(str(tmp_path / "store"))
    found = Lister().list(item)
    assert list(found) == ["\udcff\x1b"]
    assert Change.between(item, {}, found).words == f"{tmp_path}/rows: 1 new (\\udcff\\x1b)"
    Seen(store, "me").note(item, found)
    assert Seen(store, "me").of(item) == found


def test_a_glob_and_a_file(tmp_path: Path) -> None:
    for name in ("a.jsonl", "b.jsonl", "c.txt"):
        (tmp_path / name).write_text(name)
    assert len(Lister().list(watched("*.jsonl", tmp_path))) == 2
    assert Lister().list(watched("c.txt", tmp_path)).keys() == {"c.txt"}
    (tmp_path / "[a]").write_text("x")
    assert Lister().list(watched("[a]", tmp_path)).keys() == {"[a]"}, "a name that is there is taken as it stands"


def test_a_folder_that_may_not_be_read_is_not_an_empty_one(tmp_path: Path) -> None:
    long = watched("x" * 300, tmp_path)
    with pytest.raises(StoreUnavailable, match="File name too long"):
        Lister().list(long)


def test_a_registered_models_alias_that_moves(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "store"))
    item = watched("models:/net@champion", None)
    lister = Lister(store)
    assert lister.list(item) == {}
    for number, aliases in (("1", ()), ("2", ("champion",))):
        register_model(store, "net", number * 64, run_id=f"run-{number}", stage="s", metrics={}, aliases=aliases)
        seen = lister.list(item)
        assert seen == ({"version 2": "2" * 64} if aliases else {})


def test_what_was_seen_is_kept_for_each_watcher_and_thing(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "store"))
    one, other = Watched("path", "/a"), Watched("s3", "s3://bucket/a/")
    Seen(store, "me").note(one, {"x": "1"})
    assert Seen(store, "me").of(one) == {"x": "1"}
    assert Seen(store, "me").of(other) == {} and Seen(store, "you").of(one) == {}


def test_assets_are_not_ours_to_list() -> None:
    with pytest.raises(InputError, match="only Airflow knows"):
        Lister().list(Watched("asset", "a"))


LISTINGS = st.dictionaries(st.text(max_size=4), st.sampled_from("123"), max_size=6)


@given(LISTINGS, LISTINGS)
def test_a_change_is_exactly_the_difference(before: dict[str, str], now: dict[str, str]) -> None:
    change = Change.between(Watched("path", "/a"), before, now)
    assert (change is None) == (before == now) == (digest(before) == digest(now))
    if change:
        kept = {name: tag for name, tag in before.items() if name not in {*change.gone, *change.replaced}}
        assert kept | {name: now[name] for name in (*change.new, *change.replaced)} == now
        text = by_data([change])["text"]
        assert text.isprintable()


def test_events_of_assets_in_words_without_control_characters() -> None:
    ours = {"asset": "s3://b/x", "source": None, "extra": {"text": "s3://b/x/: 1 new (a)"}}
    theirs = {"asset": "w\x1b[2J", "source": "etl.load", "extra": {}}
    assert by_assets([ours, theirs, theirs])["text"] == "s3://b/x/: 1 new (a); asset w\\x1b[2J of etl.load"
