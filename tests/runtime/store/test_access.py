"""Modes of files: what posttrain makes is its owner's alone, or as open as the top folder that it lies in."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from components.contract.errors import StoreUnavailable
from components.runtime.job.scratch import scratch_folder
from components.runtime.lineage.delivery.deliver import deliver
from components.runtime.store import open_store
from components.runtime.store.access import access_below, temporary_top
from tests.runtime.lineage.conftest import tell
from tests.support.toy_command import RECIPE, toy_command

TOP_MODES = [(0o700, 0o600, 0o400, 0o700), (0o2770, 0o660, 0o440, 0o2770), (0o755, 0o644, 0o444, 0o755)]


@pytest.fixture(params=[0o000, 0o022, 0o077])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    """The umask of the writing process, which must not matter."""
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def modes(top: Path) -> dict[str, set[int]]:
    found: dict[str, set[int]] = {"folder": set(), "file": set(), "artifact": set()}
    for path in top.rglob("*"):
        is_content = not {"files", "pieces"}.isdisjoint(path.relative_to(top).parts)
        kind = "folder" if path.is_dir() else "artifact" if is_content else "file"
        found[kind].add(mode(path))
    return found


@pytest.mark.usefixtures("umask")
@pytest.mark.parametrize(("top", "file", "artifact", "below"), TOP_MODES)
def test_everything_below_a_top_folder_has_its_access(
    tmp_path: Path, folder: Callable[..., Path], top: int, file: int, artifact: int, below: int
) -> None:
    root = tmp_path / "store"
    root.mkdir()
    root.chmod(top)
    store = open_store(str(root))
    store.commit("Model", folder({"a": b"1", "deep/b": b"2"}))
    store.put("actions/a.json", {})
    store.put("actions/a.json", {"x": 1}, overwrite=True)
    store.partials("fp").save(1, folder({"w": b"1"}))
    with store.lock("job", wait_seconds=0), scratch_folder(store, "mark"):
        found = modes(root)
    assert found == {"folder": {below}, "file": {file}, "artifact": {artifact}}


@pytest.mark.usefixtures("umask")
def test_a_store_that_is_made_is_its_owners_alone(tmp_path: Path) -> None:
    open_store(str(tmp_path / "new" / "store")).put("a.json", {})
    assert [mode(tmp_path / name) for name in ("new", "new/store", "new/store/a.json")] == [0o700, 0o700, 0o600]


def test_the_database_follows_the_store(tmp_path: Path) -> None:
    place = tmp_path / "new"
    store = open_store(str(place / "store"))
    tell(store, "quick-1")
    before = os.umask(0)
    try:
        deliver(store, "quick-1", f"sqlite:///{place}/mlflow.db")
    finally:
        os.umask(before)
    assert mode(place) == 0o700
    assert mode(place / "mlflow.db") == 0o600


def test_a_run_leaves_nothing_that_others_may_read(tmp_path: Path) -> None:
    """Logs, ledger, events, artifacts, the report and the database, under a umask that hides nothing."""
    before = os.umask(0)
    try:
        done = toy_command(tmp_path / "new" / "store")("run", RECIPE)
    finally:
        os.umask(before)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "new" / "logs").is_dir()
    open_to_others = [path for path in (tmp_path / "new").rglob("*") if mode(path) & 0o077]
    assert open_to_others == [] and mode(tmp_path / "new") == 0o700


def test_the_cache_of_a_bucket_is_its_owners_alone(s3_uri: str, folder: Callable[..., Path]) -> None:
    before = os.umask(0)
    try:
        store = open_store(s3_uri)
        fetched = store.fetch(store.commit("Model", folder({"deep/w": b"1"})).digest)
    finally:
        os.umask(before)
    cache = Path(os.environ["POSTTRAIN_CACHE"])
    assert fetched.is_relative_to(cache) and mode(cache) == 0o700
    assert [path for path in cache.rglob("*") if mode(path) & 0o077] == []


def test_a_temporary_folder_that_another_user_made_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    own = temporary_top()
    assert mode(own) == 0o700
    own.rmdir()
    (tmp_path / "elsewhere").mkdir()
    own.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreUnavailable, match="belongs to another user; set TMPDIR"):
        temporary_top()


def test_a_folder_that_is_yet_to_be_made_counts_as_private(tmp_path: Path) -> None:
    assert access_below(tmp_path / "none").umask == 0o077
