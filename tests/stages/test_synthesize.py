"""The synthesize stage: counts that add up, resume, writers, the chain behind the generator, and refusals."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from components.contract.errors import InputError, StageFailed
from components.contract.job import Resources
from components.contract.memory import GIB, MemoryKind
from components.curation.operators.difficulty import DifficultyConfig
from components.modeling.models.model_sizes import ModelSizes
from components.synthesize.component import COMPONENT, asks
from components.synthesize.params import SynthesizeParams
from components.tasks.item import item_from_row
from components.tasks.rows import read_rows
from components.tasks.verify import verify
from tests.stages.toy_models import prompt_rows, toy_models
from tests.support.stage_context import Finished, Interrupted, run_stage, write_jsonl

CARELESS = {"name": "careless", "error_rate": 0.5}


def sums(count: int) -> list[dict[str, Any]]:
    return [
        {"id": f"s{n}", "domain": "sums", "prompt": f"{n} + 1 =", "answer": str(n + 1), "verifier": "numeric"}
        for n in range(10, 10 + count)
    ]


def synthesize(
    folder: Path, rows: list[dict[str, Any]], *, inputs: dict[str, Any] | None = None, seed: int = 5, **options: Any
) -> Finished:
    stop_after = options.pop("stop_after", None)
    given = {"dataset": [write_jsonl(folder / "items", rows)], **(inputs or {})}
    params = {"generator": {"name": "rejection", "num_samples": 4}, **options}
    return run_stage(COMPONENT, folder / "run", params=params, inputs=given, seed=seed, stop_after=stop_after)


def card_of(finished: Finished) -> dict[str, Any]:
    return json.loads((finished.outputs["dataset"] / "card.json").read_text())


def test_texts_are_rows_or_counted_by_reason(tmp_path: Path) -> None:
    finished = synthesize(tmp_path, sums(100), programs=[CARELESS], chunk=30)
    rows = read_rows(finished.outputs["dataset"])
    assert all(verify(item_from_row(row, "row"), row["response"]).right for row in rows)
    card = card_of(finished)
    assert card["num_drawn"] == 400 == card["num_rows"] + sum(card["drops"].values())
    assert card["num_rows"] == len(rows) == len({row["prompt"] for row in rows}), "one right text of each, and repeats"
    assert abs(card["drops"]["wrong"] - 200) < 40, "the error rate of the program"
    assert Counter(row["quality"] for row in rows) == {"careless": len(rows)}
    assert finished.metrics["num_items"] == 100
    assert finished.metrics["dropped_wrong"] == card["drops"]["wrong"]
    assert finished.manifests["dataset"].metadata["kind"] == "demonstrations"
    page = (finished.outputs["report"] / "index.html").read_text()
    assert "wrong" in page


def test_a_kill_between_any_two_chunks_changes_nothing(tmp_path: Path) -> None:
    params = {"programs": [CARELESS], "chunk": 7, "size": 30}
    straight = synthesize(tmp_path / "straight", sums(40), **params)
    for step in (1, 2, 3, 4):
        with pytest.raises(Interrupted):
            synthesize(tmp_path / "killed", sums(40), stop_after=step, **params)
    assert synthesize(tmp_path / "killed", sums(40), **params).digests == straight.digests
    assert straight.metrics["num_rows"] == 30


def test_a_model_writes_and_its_difficulty_is_measured_between_chunks(tmp_path: Path) -> None:
    rows = prompt_rows("copy", "flip")
    inputs = {"teachers": [toy_models().forgetful], "policy": toy_models().forgetful}
    params = {
        "generator": {"name": "rejection", "num_samples": 4, "max_new_tokens": 6},
        "difficulty": {"num_samples": 4, "max_new_tokens": 6, "chunk": 5},
        "chunk": 8,
        "inputs": inputs,
    }
    straight = synthesize(tmp_path / "straight", rows, **params)
    made = read_rows(straight.outputs["dataset"])
    assert made and all(verify(item_from_row(row, "row"), row["response"]).right for row in made)
    assert {row["quality"] for row in made} == {"test.teachers"}
    assert all("pass_rate" in row for row in made)
    card = card_of(straight)
    assert card["num_drawn"] == 4 * len(rows) == card["num_rows"] + sum(card["drops"].values())
    for step in (1, 2, 4):
        with pytest.raises(Interrupted):
            synthesize(tmp_path / "killed", rows, stop_after=step, **params)
    assert synthesize(tmp_path / "killed", rows, **params).digests == straight.digests


def test_rows_pass_the_chain_of_curate(tmp_path: Path) -> None:
    rows = [*sums(10), {**sums(1)[0], "id": "again"}, {**sums(2)[1], "id": "no", "answer": " "}]
    leaked = write_jsonl(tmp_path / "heldout", sums(3))
    finished = synthesize(tmp_path, rows, inputs={"against": [leaked]}, programs=["gold"])
    drops = card_of(finished)["drops"]
    assert drops == {"contaminated": 4, "repeated": 33, "verification_failed": 4}
    assert finished.metrics["num_rows"] == 7


def test_only_items_of_the_wanted_pass_rates_are_taken(tmp_path: Path) -> None:
    ledger = [
        {"prompt_id": f"s{n}", "domain": "sums", "num_samples": 4, "num_right": n % 5, "num_wrong": 4 - n % 5,
         "num_failed": 0}
        for n in range(10, 20)
    ]  # fmt: skip
    folder = write_jsonl(tmp_path / "ledger", ledger, name="passrates.jsonl")
    finished = synthesize(
        tmp_path, sums(10), inputs={"ledger": [folder]}, programs=["gold"], pass_rate=[0.0, 0.25], shuffle=False
    )
    assert [row["id"] for row in read_rows(finished.outputs["dataset"])] == ["s10", "s11", "s15", "s16"]
    with pytest.raises(InputError, match=r"pass_rate: none of 10 items has a pass rate in \[0\.3, 0\.4\]"):
        synthesize(tmp_path / "none", sums(10), inputs={"ledger": [folder]}, programs=["gold"], pass_rate=[0.3, 0.4])


def test_recorded_rollouts_give_items_too(tmp_path: Path) -> None:
    recorded = [{**row, "prompt_id": row["id"], "response": "<answer>1", "outcome": "wrong"} for row in sums(3)]
    for row in recorded:
        del row["id"]
    rollouts = write_jsonl(tmp_path / "rollouts", recorded)
    finished = run_stage(
        COMPONENT,
        tmp_path / "run",
        params={"generator": "rejection", "programs": ["gold"]},
        inputs={"rollouts": [rollouts]},
    )
    assert finished.metrics["num_rows"] == 3


def test_missing_rows_are_counted_and_too_few_fail_with_their_reasons(tmp_path: Path) -> None:
    finished = synthesize(tmp_path / "some", sums(10), programs=["gold"], size=16)
    assert (finished.metrics["num_rows"], finished.metrics["num_missing"]) == (10, 6)
    with pytest.raises(StageFailed, match=r"10 rows were made of 30, less than min_share 0\.5; dropped: 30 repeated"):
        synthesize(tmp_path / "few", sums(10), programs=["gold"], size=30)
    with pytest.raises(StageFailed, match="0 rows were made; dropped: 40 wrong"):
        synthesize(tmp_path / "none", sums(10), programs=["wrong"])


def test_further_rounds_draw_anew_until_there_are_enough(tmp_path: Path) -> None:
    params = {"generator": {"name": "rejection", "num_samples": 1}, "programs": [CARELESS], "chunk": 5}
    once = synthesize(tmp_path / "once", sums(20), **params)
    often = synthesize(tmp_path / "often", sums(20), rounds=40, size=20, **params)
    assert once.metrics["num_rows"] < 20 == often.metrics["num_rows"]
    assert often.metrics["num_drawn"] < 400, "drawing ends with the last row that is wanted"


def test_equal_seeds_give_equal_bytes(tmp_path: Path) -> None:
    runs = [synthesize(tmp_path / str(n), sums(20), programs=[CARELESS], seed=seed) for n, seed in enumerate((1, 1, 2))]
    assert runs[0].digests == runs[1].digests != runs[2].digests


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ({"generator": "rejecton"}, "rejection"),
        ({"generator": {"name": "rejection", "num_samples": 0}}, "num_samples"),
        ({"generator": "rejection", "programs": ["golden"]}, "gold"),
        ({"generator": "rejection", "split": [0.5, 0.5]}, "split: expected"),
        ({"generator": "rejection", "pass_rate": [0.5, 0.1]}, "pass_rate: expected"),
        ({"generator": "rejection", "judge_programs": ["gold"]}, "'rejection' asks no judges"),
    ],
)
def test_contradictions_are_one_line(params: dict[str, Any], says: str) -> None:
    with pytest.raises((ValidationError, InputError), match=says):
        SynthesizeParams.model_validate(params)


def test_writers_are_required_unless_a_program_stands_in() -> None:
    assert asks(SynthesizeParams.model_validate({"generator": "rejection"})) == {"teachers": ["generator 'rejection'"]}
    assert asks(SynthesizeParams.model_validate({"generator": "rejection", "programs": ["gold"]})) == {"teachers": []}


def test_memory_is_the_process_and_its_writers_or_the_measured_policy_too() -> None:
    sizes = ModelSizes(1000, 2048, 10, 16, 16, 128, 8192, tied=True)
    assert COMPONENT.memory and COMPONENT.further_memory
    plain = SynthesizeParams.model_validate({"generator": "rejection"})
    alone = COMPONENT.memory(plain, None, Resources(pool="cpu"))
    assert alone is not None and alone.bytes(MemoryKind.NODE) < GIB
    teacher = alone.beside(COMPONENT.further_memory("teachers", sizes, plain, Resources(pool="cpu")))
    assert teacher.bytes(MemoryKind.NODE) > alone.bytes(MemoryKind.NODE) + 4 * sizes.parameters, "float32 weights"
    measured = plain.model_copy(update={"difficulty": DifficultyConfig()})
    assert COMPONENT.memory(measured, None, Resources(pool="cpu")) is None, "of an unknown policy"


def test_nothing_to_make_rows_from_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="connect input `dataset` or `rollouts`"):
        run_stage(COMPONENT, tmp_path, params={"generator": "rejection", "programs": ["gold"]})
