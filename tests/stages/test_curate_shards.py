"""A streamed corpus in shards: the bytes of one stage alone, whatever their number, and counts that add up."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from components.contract.errors import InputError
from components.curate.component import COMPONENT
from components.curate.params import CurateParams
from tests.stages.test_curate_streamed import card_of, corpus, drawn_rows
from tests.support.stage_context import Finished, Interrupted, run_stage, write_jsonl

MIXED = [
    {"demonstrator": {"name": "careless", "error_rate": 0.5}, "weight": 2},
    {"demonstrator": "gold"},
]


def alone(folder: Path, params: dict[str, Any], **options: Any) -> Finished:
    return run_stage(COMPONENT, folder, params=params, **options)


def shard(folder: Path, params: dict[str, Any], index: int, of: int, **options: Any) -> Finished:
    """Run one shard as a recipe would: with the parameters that it is given, and its own outputs."""
    assert COMPONENT.sharding is not None
    own = COMPONENT.sharding.params_of(params, index, of)
    component = COMPONENT.formed(CurateParams.model_validate(own))
    assert set(component.outputs) == {"parts"}
    return run_stage(component, folder / f"shard-{index}", params=own, **options)


def divided(folder: Path, params: dict[str, Any], of: int, *, inputs: dict[str, Any] | None = None) -> Finished:
    shards = [shard(folder, params, index, of, inputs=inputs).outputs["parts"] for index in range(of)]
    return join(folder, params, shards, inputs)


def join(
    folder: Path,
    params: dict[str, Any],
    shards: list[Path],
    inputs: dict[str, Any] | None = None,
    **options: Any,
) -> Finished:
    given = {**(inputs or {}), "shards": shards}
    return run_stage(COMPONENT, folder / "join", params={**params, "shards": len(shards)}, inputs=given, **options)


def sums(folder: Path, count: int = 60) -> dict[str, Any]:
    """Return a source of additions that demonstrators answer, of which every tenth is a copy."""
    numbers = [n - (n % 10 == 9) for n in range(count)]
    rows = [{"prompt": f"{n} + 2 =", "answer": str(n + 2)} for n in numbers]
    path = write_jsonl(folder / "sums", rows, name="in.jsonl") / "in.jsonl"
    return {"source": {"name": "jsonl", "path": str(path), "verifier": "numeric"}, "domain": "sums"}


def given(folder: Path, count: int = 20) -> dict[str, Any]:
    """Return a source of prompts with responses of their own."""
    rows = [{"prompt": f"say {n}", "answer": str(n), "response": f"it is {n}"} for n in range(count)]
    path = write_jsonl(folder / "given", rows, name="in.jsonl") / "in.jsonl"
    columns = {"response": "response"}
    return {"source": {"name": "jsonl", "path": str(path), "columns": columns}, "domain": "given"}


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("of", [1, 3, 16])
def test_the_bytes_are_those_of_one_stage(tmp_path: Path, of: int, shuffle: bool) -> None:
    params = corpus(tmp_path, streamed={"rows_per_part": 13}, shuffle=shuffle, count_tokens=True)
    whole, found = alone(tmp_path / "alone", params), divided(tmp_path, params, of)
    assert found.digests == whole.digests, "rows, card, metrics and page"
    assert found.metrics == whole.metrics
    card = card_of(found)
    assert card["drops"]["duplicate"] > 50 and card["drops"]["near_duplicate"] > 50
    assert card["num_drawn"] == card["num_rows"] + sum(card["drops"].values()) == 600
    for source in card["sources"]:
        assert source["drawn"] == source["kept"] + sum(source["drops"].values()) == 300


@pytest.mark.parametrize("of", [1, 3, 16])
def test_a_demonstrator_draws_as_by_the_rows_position_in_the_whole(tmp_path: Path, of: int) -> None:
    """Who answers, and with which mistakes, depends on how many rows passed before: other shards know that."""
    shares = [{**sums(tmp_path), "demonstrators": MIXED}, given(tmp_path)]
    params = {"kind": "corpus", "sources": shares, "streamed": {"rows_per_part": 7}, "shuffle": False}
    whole, found = alone(tmp_path / "alone", params), divided(tmp_path, params, of)
    assert found.digests == whole.digests
    in_memory = alone(tmp_path / "memory", {**params, "streamed": "off", "dedup": {"exact": False}})
    kept_all = {**params, "dedup": {"exact": False}}
    assert divided(tmp_path / "all", kept_all, of).digests["dataset"] == in_memory.digests["dataset"]
    texts = (found.outputs["dataset"] / "rows.jsonl").read_text()
    assert "it is 7" in texts
    answers = re.findall(r'"(\d+) \+ 2 =\\n<answer>(\d+)"', texts)
    assert 54 > sum(int(number) + 2 == int(answer) for number, answer in answers) > 20, "some are wrong"


def test_leaks_and_bad_rows_are_counted_once(tmp_path: Path) -> None:
    rows = [*drawn_rows(40), {"text": 7}, {"text": ""}, {"text": "the secret question is here"}]
    path = write_jsonl(tmp_path / "in", rows, name="in.jsonl") / "in.jsonl"
    source = {"name": "jsonl", "path": str(path), "columns": {"text": "text"}, "bad_rows": "drop"}
    params = {
        "kind": "corpus",
        "sources": [{"source": source, "domain": "w"}],
        "streamed": {"rows_per_part": 7},
    }
    inputs = {"against": write_jsonl(tmp_path / "held", [{"prompt": "the secret question is", "id": "h"}])}
    whole = alone(tmp_path / "alone", params, inputs=inputs)
    found = divided(tmp_path, params, 3, inputs=inputs)
    assert found.digests == whole.digests
    assert card_of(found)["drops"]["contaminated"] == card_of(found)["drops"]["bad_row"] == 1


def test_every_row_is_one_shards(tmp_path: Path) -> None:
    params = corpus(tmp_path, count=100, streamed={"rows_per_part": 9})
    told = [shard(tmp_path, params, index, 4) for index in range(4)]
    assert sum(one.metrics["num_drawn"] for one in told) == 200
    assert all(30 <= one.metrics["num_drawn"] <= 70 for one in told)
    assert all(one.metrics["num_drawn"] == one.metrics["num_rows"] + one.metrics["num_dropped"] for one in told)


def test_what_only_the_joining_stage_reads_leaves_the_shards_as_they_are(tmp_path: Path) -> None:
    params = corpus(tmp_path, count=30, streamed={"rows_per_part": 9})
    changed = {**params, "shuffle": False, "count_tokens": True}
    assert COMPONENT.sharding is not None
    assert COMPONENT.sharding.params_of(params, 0, 2) == COMPONENT.sharding.params_of(changed, 0, 2)


@pytest.mark.parametrize("stop", [1, 2, 4])
def test_a_shard_stopped_after_any_checkpoint_makes_the_same_parts(tmp_path: Path, stop: int) -> None:
    params = corpus(tmp_path, count=100, streamed={"rows_per_part": 11})  # 10 parts of each source, 4 or 3 a shard
    whole = shard(tmp_path / "whole", params, 1, 5)
    with pytest.raises(Interrupted):
        shard(tmp_path / "cut", params, 1, 5, stop_after=stop)
    assert shard(tmp_path / "cut", params, 1, 5).digests == whole.digests


def test_a_joining_stage_stopped_after_picking_ends_in_the_same_bytes(tmp_path: Path) -> None:
    params = corpus(tmp_path, count=100, streamed={"rows_per_part": 11})
    shards = [shard(tmp_path, params, index, 3).outputs["parts"] for index in range(3)]
    with pytest.raises(Interrupted):
        join(tmp_path, params, shards, stop_after=1)
    assert join(tmp_path, params, shards).digests == alone(tmp_path / "alone", params).digests


def test_shards_that_are_not_there_or_read_other_rows_are_refused(tmp_path: Path) -> None:
    params = corpus(tmp_path, count=30, streamed={"rows_per_part": 11})
    shards = [shard(tmp_path, params, index, 3).outputs["parts"] for index in range(3)]
    with pytest.raises(InputError, match="expected each of 2 shards once, found 0 of 3, 1 of 3"):
        join(tmp_path / "two", params, shards[:2])
    with pytest.raises(InputError, match="expected each of 3 shards once, found 0 of 3, 0 of 3, 2 of 3"):
        join(tmp_path / "twice", params, [shards[0], shards[0], shards[2]])
    with pytest.raises(InputError, match="expected each of 2 shards once, found none"):
        alone(tmp_path / "none", {**params, "shards": 2})
    changed = corpus(tmp_path, count=31, streamed={"rows_per_part": 11})
    other = shard(tmp_path / "other", changed, 1, 3).outputs["parts"]
    message = r"'jsonl' changed while its shards read it \(30 rows in shard 0 and 31 rows in shard 1\): pin its"
    with pytest.raises(InputError, match=message):
        join(tmp_path / "changed", params, [shards[0], other, shards[2]])


def test_more_shards_than_rows(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text("")
    source = {"name": "jsonl", "path": str(tmp_path / "in.jsonl"), "columns": {"text": "text"}}
    params = {"kind": "corpus", "sources": [{"source": source, "domain": "w"}], "streamed": "on"}
    found = divided(tmp_path, params, 3)
    assert found.metrics["num_rows"] == 0 and found.digests == alone(tmp_path / "alone", params).digests


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"streamed": "off", "shards": 3}, "shards: only a streamed corpus is divided; set `streamed: on`"),
        ({"streamed": "off", "shard": {"index": 0, "of": 2}}, "shards: only a streamed corpus is divided"),
        ({"shards": 2, "shard": {"index": 0, "of": 2}}, "shard: `shards` adds the stages"),
        ({"shard": {"index": 2, "of": 2}}, "of 2 shards, the last has the index 1, not 2"),
        ({"shards": 0}, "greater than or equal to 1"),
        ({"shards": 257}, "less than or equal to 256"),
    ],
)
def test_what_cannot_be_divided_is_refused(changed: dict[str, Any], message: str) -> None:
    params = {"kind": "corpus", "sources": [{"source": {"name": "artifact"}}], "streamed": "on", **changed}
    with pytest.raises(ValidationError, match=message):
        CurateParams.model_validate(params)


def test_parts_hold_rows_in_the_order_of_the_source(tmp_path: Path) -> None:
    params = corpus(tmp_path, count=30, streamed={"rows_per_part": 10}, dedup={"exact": True})
    folder = shard(tmp_path, params, 1, 2).outputs["parts"]
    names = sorted(path.name for path in folder.glob("part-*.json"))
    assert names == ["part-000-000001.json", "part-001-000000.json", "part-001-000002.json"]
    told = json.loads((folder / "shard.json").read_text())
    assert (told["index"], told["of"], told["rows"]) == (1, 2, [30, 30])
