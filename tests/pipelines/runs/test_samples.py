"""Samples of runs: ended and running stages, in a folder and in a bucket, chosen and sorted, damage named."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from components.contract.artifacts import ArtifactType
from components.contract.errors import InputError
from components.runtime.ledger.ledger import load_run
from components.runtime.ledger.records import output_record
from components.runtime.store import Store, open_store
from pipelines.runs.samples import Found, Wish, find_samples

RUN = "quick-1"
FINGERPRINT = "ab" * 32
MEGABYTE = "x" * 1_000_000


def row(step: int, response: str, outcome: str = "wrong", **fields: Any) -> dict[str, Any]:
    reward = {"right": 1.0, "wrong": 0.0}.get(outcome)
    return {"step": step, "prompt": f"p{step}", "response": response, "outcome": outcome, "reward": reward} | fields


ROWS = [
    row(1, "six", domain="sums", prompt_id="a"),
    row(2, "seven", "right", domain="sums", prompt_id="a", num_tokens=3),
    row(2, MEGABYTE, "failed", domain="spelling", num_tokens=900),
]


@pytest.fixture(params=["folder", "bucket"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "folder":
        return open_store(str(tmp_path / "store"))
    return open_store(request.getfixturevalue("s3_uri"))


def lines(rows: Iterable[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def begin(store: Store) -> None:
    stages = [{"name": "rl-lr-1", "group": "rl"}, {"name": "rl-lr-2", "group": "rl"}, {"name": "data"}]
    store.put(f"ledger/{RUN}/run.json", {"recipe": "quick", "stages": stages})


def end(store: Store, stage: str, type: ArtifactType, name: str, data: bytes, folder: Path) -> str:
    """Write the ledger entry of a stage whose one output holds one file; return the output's digest."""
    draft = folder / f"draft-{stage}"
    draft.mkdir()
    (draft / name).write_bytes(data)
    manifest = store.commit(type, draft)
    entry = {"stage": stage, "inputs": {}, "outputs": {"out": output_record(store, manifest)}}
    store.put(f"ledger/{RUN}/stages/{stage}.json", entry)
    return manifest.digest


def run_on(store: Store, rows: list[dict[str, Any]], step: int, folder: Path) -> None:
    """Leave a partial checkpoint of stage rl-lr-2, beside a large file of its weights."""
    draft = folder / f"partial-{step}"
    (draft / "outputs" / "metrics").mkdir(parents=True)
    (draft / "outputs" / "metrics" / "samples.jsonl").write_bytes(lines(rows))
    (draft / "weights").write_bytes(b"w" * 1000)
    store.partials(FINGERPRINT).save(step, draft)
    store.put(f"spool/{RUN}/stages/rl-lr-2/{FINGERPRINT}/started.json", {"kind": "stage_started"})


@pytest.fixture
def find(store: Store, tmp_path: Path) -> Callable[..., Found]:
    """A run with an ended stage, a running one and rows of data; returns a function that looks for samples."""
    begin(store)
    end(store, "rl-lr-1", ArtifactType.METRICS, "samples.jsonl", lines(ROWS), tmp_path)
    end(store, "data", ArtifactType.DATASET, "rows.jsonl", lines([{"prompt": "2 + 2", "answer": "4"}]), tmp_path)
    run_on(store, ROWS[:1], 1, tmp_path)
    run_on(store, [*ROWS[:1], row(5, "newest")], 5, tmp_path)

    def look(stage: str | None = None, **wish: Any) -> Found:
        return find_samples(store, load_run(store, RUN), stage, Wish(**wish))

    return look


def responses(found: Found) -> list[str | None]:
    return [sample.response for _, sample in found.chosen]


def test_ended_and_running_stages_from_worst_to_best(find: Callable[..., Found]) -> None:
    found = find()
    assert responses(found) == [MEGABYTE, "six", "six", "newest", "seven"]
    assert found.notes == ["rl-lr-2 runs: as of its checkpoint of step 5"]
    assert responses(find("rl-lr-2", step=5)) == ["newest"]
    assert responses(find("rl")) == responses(found)
    assert [sample.answer for _, sample in find("data").chosen] == ["4"]


def test_they_are_chosen_and_sorted(find: Callable[..., Found]) -> None:
    assert responses(find(outcomes=frozenset({"right"}))) == ["seven"]
    assert responses(find("rl-lr-1", domain="sums", sort="best")) == ["seven", "six"]
    assert responses(find("rl-lr-1", sort="length", limit=1)) == [MEGABYTE]
    assert responses(find("rl-lr-1", words="SEV")) == ["seven"]
    assert responses(find("rl-lr-1", prompt_id="a", step=1)) == ["six"]
    found = find(words="nowhere")
    assert (responses(found), found.num_matching) == ([], 0)


def test_what_is_not_there_is_said_with_what_is(find: Callable[..., Found]) -> None:
    with pytest.raises(InputError, match=r"no samples of step 4; the nearest steps with some: 1, 2, 5"):
        find(step=4)
    with pytest.raises(InputError, match=r"no samples of domain 'sum'; did you mean 'sums'"):
        find(domain="sum")
    with pytest.raises(InputError, match=r"unknown stage of run quick-1 'rll'"):
        find("rll")


def test_a_run_without_samples(store: Store, tmp_path: Path) -> None:
    begin(store)
    with pytest.raises(InputError, match="run quick-1 has kept no samples yet"):
        find_samples(store, load_run(store, RUN), None, Wish())


def test_damage_is_named_and_the_rest_is_shown(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "store"))
    begin(store)
    digest = end(store, "rl-lr-1", ArtifactType.METRICS, "samples.jsonl", lines(ROWS), tmp_path)
    end(store, "data", ArtifactType.METRICS, "samples.jsonl", lines(ROWS[:1]), tmp_path)
    (path,) = Path(store.uri, "objects", digest).rglob("samples.jsonl")
    path.chmod(0o644)
    path.write_bytes(b"y" + path.read_bytes()[1:])
    found = find_samples(store, load_run(store, RUN), None, Wish())
    assert responses(found) == ["six"]
    (note,) = found.notes
    assert note.startswith("rl-lr-1: ") and "not those that were stored" in note
