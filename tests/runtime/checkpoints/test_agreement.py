"""Ranks go on from the newest checkpoint that is whole for each of them, and each reads its own files only."""

from __future__ import annotations

import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch.distributed import HashStore

from components.contract.artifacts import FileEntry
from components.contract.errors import StageFailed, StoreUnavailable
from components.runtime.checkpoints.agreement import newest_for_all
from components.runtime.checkpoints.checkpoints import Checkpoints
from components.runtime.checkpoints.shards import Shards
from components.runtime.store import Store, open_store
from components.runtime.store.partials import Found

WORLD, STEPS = 3, (4, 5)
STATE = "state"
PARTS = tuple(f"part-{rank}" for rank in range(WORLD))
DAMAGES = ("whole", "missing", "cut short", "changed")
damages = st.dictionaries(
    st.tuples(st.sampled_from(STEPS), st.sampled_from((STATE, *PARTS))), st.sampled_from(DAMAGES[1:]), max_size=4
)


def content(step: int, name: str) -> bytes:
    return f"{name} at {step}".encode()


def saved(folder: Path) -> Store:
    """Return a store with a checkpoint of each step, to which each rank gave a part."""
    store = open_store(str(folder / "store"))
    for step in STEPS:
        draft = folder / f"draft-{step}"
        draft.mkdir()
        for name in (STATE, *PARTS):
            (draft / name).write_bytes(content(step, name))
        store.partials("job").save(step, draft)
    return store


def damage(store: Store, step: int, name: str, kind: str) -> None:
    pieces = Path(store.uri, "partial", "job", "pieces").iterdir()
    (path,) = [path for path in pieces if path.read_bytes() == content(step, name)]
    path.chmod(0o644)
    if kind == "missing":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-1] if kind == "cut short" else content(step, name)[::-1])


class Rank:
    """One rank of several: the store as it sees it, and what it read of checkpoints."""

    def __init__(self, uri: str, server: HashStore, rank: int, folder: Path) -> None:
        self.store, self.shards, self.into = open_store(uri), Shards(server, rank, WORLD), folder / f"rank-{rank}"
        self.read: Counter[bytes] = Counter()
        self.told: list[str] = []
        download = self.store.blobs.download

        def counted(files: list[tuple[str, FileEntry]], into: Path) -> None:
            self.read.update(entry.sha256 + entry.path for _, entry in files)
            download(files, into)

        self.store.blobs.download = counted  # type: ignore[method-assign]

    def take(self) -> Found | None:
        later = lambda path: path in PARTS and path != PARTS[self.shards.rank]  # noqa: E731
        return newest_for_all(self.store.partials("job"), self.into, self.shards, later, self.told.append)


def all_take(ranks: list[Rank]) -> list[Found | None]:
    with ThreadPoolExecutor(len(ranks)) as pool:
        return [future.result(60) for future in [pool.submit(rank.take) for rank in ranks]]


@settings(deadline=None, max_examples=40)
@given(damages)
@example({})
@example({(5, PARTS[1]): "changed"})
@example({(5, PARTS[0]): "missing", (4, PARTS[2]): "cut short"})
@example({(5, PARTS[1]): "missing", (5, PARTS[2]): "missing"})
def test_all_ranks_take_the_newest_checkpoint_that_is_whole(damaged: dict[tuple[int, str], str]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder, server = Path(name), HashStore()
        store = saved(folder)
        for (step, file), kind in damaged.items():
            damage(store, step, file, kind)
        ranks = [Rank(store.uri, server, rank, folder) for rank in range(WORLD)]
        found = all_take(ranks)
        whole = [step for step in STEPS if not any((step, file) in damaged for file in (STATE, *PARTS))]
        taken = whole[-1] if whole else None
        assert [each and each.step for each in found] == [taken] * WORLD
        for rank, part in zip(ranks, PARTS, strict=True):
            assert set(rank.read.values()) <= {1}  # nothing twice
            assert not any(key.endswith(other) for key in rank.read for other in PARTS if other != part)
            there = {path.name: path.read_bytes() for path in rank.into.iterdir()} if rank.into.is_dir() else {}
            assert there == ({file: content(taken, file) for file in (STATE, part)} if taken else {})
        left_out = [step for step in reversed(STEPS) if taken is None or step > taken]
        assert len(ranks[0].told) == len(left_out) and not any(rank.told for rank in ranks[1:])
        for step, text in zip(left_out, ranks[0].told, strict=True):
            assert f"the partial checkpoint of step {step} is left out: " in text and "\n" not in text
            assert any(file in text for at, file in damaged if at == step)
        assert sum(1 for _ in store.blobs.keys("quarantine/")) >= len(left_out)


def test_a_checkpoint_that_cannot_be_set_aside_is_proposed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, server = saved(tmp_path), HashStore()
    damage(store, 5, PARTS[2], "changed")
    ranks = [Rank(store.uri, server, rank, tmp_path) for rank in range(WORLD)]
    monkeypatch.setattr(ranks[0].store.blobs, "move", refuse)
    found = all_take(ranks)
    assert [each and each.step for each in found] == [4] * WORLD
    assert len(ranks[0].told) == 1 and "it could not be set aside" in ranks[0].told[0]


def refuse(*_: str) -> None:
    raise StoreUnavailable("read-only")


def test_a_rank_whose_store_lacks_the_checkpoint_says_so(tmp_path: Path) -> None:
    store, server = saved(tmp_path), HashStore()
    other = Rank(str(tmp_path / "elsewhere"), server, 1, tmp_path)
    other.shards.propose(0, store.partials("job").load(tmp_path / "first").key, agreed=False)  # type: ignore[union-attr]
    with pytest.raises(StageFailed, match=r"does not see partial/job/0+5-\w+ in the store"):
        other.take()


def test_other_ranks_parts_come_when_they_are_asked_for(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "store"))
    names = ["weights-00000.safetensors", "weights-00001.safetensors", "critic-optimizer-00001.safetensors", "state"]

    def write(folder: Path) -> None:
        for name in names:
            (folder / name).write_text(name)

    first = _checkpoints(store, tmp_path / "first")
    first.begin(3, write, {}, lambda: None)
    first.wait()
    server = HashStore()
    again = [_checkpoints(store, tmp_path / f"again-{rank}", Shards(server, rank, 2)) for rank in range(2)]
    with ThreadPoolExecutor(2) as pool:
        restores = [pool.submit(each.restore, pytest.fail, own_parts=True) for each in again]
        assert [restore.result(60) for restore in restores] == [(3, {})] * 2
    there = [{path.name for path in each.resumed.iterdir()} for each in again]
    assert there == [{"state", names[0]}, {"state", *names[1:3]}]
    path = again[0].part(names[2], pytest.fail)
    assert path.parent == again[0].resumed and path.read_text() == names[2]
    assert not again[0].part("weights-00007.safetensors", pytest.fail).exists()
    path.write_text("ours")  # a copy that may be changed


def _checkpoints(store: Store, scratch: Path, shards: Shards | None = None) -> Checkpoints:
    (scratch / "outputs").mkdir(parents=True)
    found = Checkpoints(store.partials("job"), scratch, scratch / "outputs")
    found.shards = shards
    return found
