"""The registry: an alias that a version gets later, models named by it as inputs, and what the spool is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.contract.artifacts import ArtifactType
from components.contract.errors import InputError
from components.runtime.inputs.inputs import import_uri, uri_digest
from components.runtime.ledger.records import run_key
from components.runtime.lineage.delivery.watch import Watcher
from components.runtime.lineage.registry import aliases_of, find_version, register_model
from components.runtime.store import Store, open_store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "store"))


def model(store: Store, folder: Path, text: str) -> str:
    """Commit a model that holds a text and return its digest."""
    folder.mkdir()
    (folder / "model.json").write_text(text)
    return store.commit(ArtifactType.MODEL, folder, {}).digest


def register(store: Store, digest: str, run: str, *aliases: str) -> int:
    return register_model(store, "m", digest, run_id=run, stage="s", metrics={}, aliases=aliases)


def test_a_version_gets_an_alias_later_and_both_are_told_once(store: Store, tmp_path: Path) -> None:
    digest = model(store, tmp_path / "a", "1")
    assert register(store, digest, "r", "candidate") == 1
    for _ in range(2):  # a stage that is tried again registers again
        assert register(store, digest, "r", "champion") == 1
    assert aliases_of(store, "m") == {"candidate": 1, "champion": 1}
    told = {key.rpartition("/")[2]: store.get(key)["aliases"] for key in store.keys("spool/r/models/m/")}
    assert told == {"000001.json": ["candidate"], "000001-champion.json": ["champion"]}


def test_a_cached_rerun_registers_no_further_version(store: Store, tmp_path: Path) -> None:
    digest, other = model(store, tmp_path / "a", "1"), model(store, tmp_path / "b", "2")
    for run, recipe in (("r1", "quick"), ("r2", "quick"), ("r3", "quick"), ("c1", "champion")):
        store.put(run_key(run), {"recipe": recipe})

    def rerun(digest: str, run: str, *aliases: str, stage: str = "s") -> int:
        return register_model(
            store, "m", digest, run_id=run, stage=stage, metrics={}, aliases=aliases, reused=run != "r1"
        )

    assert [rerun(digest, "r1", "candidate"), rerun(other, "r1", "candidate")] == [1, 2]
    assert [rerun(digest, "r2", "candidate"), rerun(other, "r2", "candidate")] == [1, 2]
    assert aliases_of(store, "m") == {"candidate": 2}
    assert rerun(digest, "r3", "tried") == 1 and aliases_of(store, "m") == {"candidate": 2, "tried": 1}
    assert rerun(digest, "c1", "champion") == 3, "another recipe promotes it: that is a version of its own"
    assert rerun(digest, "r2", stage="t") == 4, "and so is what another stage registers"


def test_an_alias_moves_forward_only(store: Store, tmp_path: Path) -> None:
    old, new = model(store, tmp_path / "a", "1"), model(store, tmp_path / "b", "2")
    register(store, old, "r1", "candidate")
    register(store, new, "r2", "candidate", "champion")
    register(store, old, "r1", "champion")
    assert aliases_of(store, "m") == {"candidate": 2, "champion": 2}


def test_an_input_names_a_registered_model(store: Store, tmp_path: Path) -> None:
    digest = model(store, tmp_path / "a", "1")
    register(store, digest, "r", "champion")
    for uri in ("models:/m@champion", "models:/m/1"):
        assert import_uri(store, uri, ArtifactType.MODEL) == digest
        assert uri_digest(store, uri, ArtifactType.MODEL) == digest
    with pytest.raises(InputError, match="'best'"):
        import_uri(store, "models:/m@best", ArtifactType.MODEL)
    with pytest.raises(InputError, match="no model is registered under this name"):
        import_uri(store, "models:/other@champion", ArtifactType.MODEL)
    with pytest.raises(InputError, match="is a Model, and the port takes a Dataset"):
        import_uri(store, "models:/m/1", ArtifactType.DATASET)


def test_a_watcher_asks_again_for_what_it_could_not_deliver(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(store, model(store, tmp_path / "a", "1"), "r", "champion")
    asked: list[str] = []

    class Result:
        pending = 1

    def deliver(store: Store, run_id: str, uri: str) -> Result:
        asked.append(run_id)
        return Result()

    monkeypatch.setattr("components.runtime.lineage.delivery.watch.deliver", deliver)
    watcher = Watcher(store, "http://127.0.0.1:1")
    watcher.look()
    Result.pending = 0
    watcher.look()
    watcher.look()
    assert asked == ["r", "r"], "what is settled is not looked at again"
    assert find_version(store, "m@champion")
