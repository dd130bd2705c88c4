"""Difficulty by a real policy's pass rate: keep range, buckets, early stop, resume."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from components.curate.component import COMPONENT
from components.measure.sampling import sample_and_verify
from components.modeling.generation.sampler import NativeSampler
from components.modeling.generation.sampling_config import SamplingConfig
from components.modeling.loading.load import load_policy
from components.tasks.item import Item
from components.tasks.rows import read_rows
from tests.stages.toy_models import prompt_rows, toy_models
from tests.support.stage_context import Finished, Interrupted, run_stage, write_jsonl

DIFFICULTY = {"num_samples": 8, "max_new_tokens": 6, "chunk": 6}


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    return prompt_rows("copy", "flip")


def curate(folder: Path, rows: list[dict[str, Any]], *, stop_after: int | None = None, **params: Any) -> Finished:
    dataset = write_jsonl(folder / "prompts", rows)
    return run_stage(
        COMPONENT,
        folder / "run",
        params={"sources": [{"source": "artifact", "count": params.pop("count", None)}], "shuffle": False, **params},
        inputs={"dataset": [dataset], "policy": toy_models().forgetful},
        seed=5,
        stop_after=stop_after,
    )


def test_kept_rows_carry_their_measured_pass_rate(tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    finished = curate(tmp_path, rows, difficulty={**DIFFICULTY, "keep": [0.0, 0.5], "buckets": [0.2, 0.4]})
    kept = {row["id"]: row for row in read_rows(finished.outputs["dataset"])}
    sampler = NativeSampler(load_policy(toy_models().forgetful))
    sampling = SamplingConfig(num_samples=8, max_new_tokens=6)
    expected = {}
    for start in range(0, len(rows), 6):
        items = [Item.model_validate(row) for row in rows[start : start + 6]]
        for outcome in sample_and_verify(sampler, items, sampling, seed=5):
            expected[outcome.item.id] = outcome.num_right / 8
    assert {key: row["pass_rate"] for key, row in kept.items()} == {k: v for k, v in expected.items() if v <= 0.5}
    assert 0 < len(kept) < len(rows), "the toy model must solve some prompts and not others"
    for row in kept.values():
        assert row["bucket"] == sum(row["pass_rate"] >= edge for edge in (0.2, 0.4))
    card = json.loads((finished.outputs["dataset"] / "card.json").read_text())
    assert card["drops"] == {"too_easy": len(rows) - len(kept)}
    assert sum(card["histograms"]["pass_rate"]["before"]) == len(rows)
    assert sum(card["histograms"]["pass_rate"]["after"]) == len(kept) == sum(card["buckets"].values())
    mean = json.loads((finished.outputs["metrics"] / "metrics.json").read_text())["mean_pass_rate"]
    assert mean["low"] <= mean["value"] <= mean["high"]
    assert mean["value"] == pytest.approx(sum(row["pass_rate"] for row in kept.values()) / len(kept))


def test_measuring_stops_when_there_are_enough(tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    finished = curate(tmp_path, rows, count=3, difficulty={**DIFFICULTY, "chunk": 4})
    card = json.loads((finished.outputs["dataset"] / "card.json").read_text())
    assert card["num_rows"] == 3
    assert sum(card["histograms"]["pass_rate"]["before"]) == 4, "one chunk was measured"
    assert card["num_drawn"] == 4, "and no more was drawn"
    assert card["drops"] == {"surplus": 1}


def test_no_more_than_the_candidates_are_measured(tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    difficulty = {**DIFFICULTY, "keep": [0.5, 0.5], "candidates": 2}
    finished = curate(tmp_path, rows, count=4, difficulty=difficulty)
    assert finished.metrics["num_drawn"] == 8
    assert finished.metrics["num_missing"] > 0


def test_a_kill_between_chunks_changes_nothing(tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    params = {"difficulty": {**DIFFICULTY, "keep": [0.1, 1.0]}}
    straight = curate(tmp_path / "straight", rows, **params)
    for step in (1, 2, 4):
        with pytest.raises(Interrupted):
            curate(tmp_path / "killed", rows, stop_after=step, **params)
    assert curate(tmp_path / "killed", rows, **params).digests == straight.digests


def test_prompts_without_a_judgement_are_dropped(tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    broken = [{**row, "verifier": "numeric"} for row in rows[:6]]
    finished = curate(tmp_path, [*rows[6:12], *broken], verifiability=False, difficulty=DIFFICULTY)
    assert finished.metrics["dropped_verification_failed"] == 6
    assert finished.metrics["num_rows"] == 6
