"""Samples of the steps: a bounded number, worst to best, with the parts of their rewards and the verdict's reason."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from components.rl.batch.batch import Batch
from components.rl.step.reward_parts import concatenated, placed
from components.rl.step.samples import MAX_STEPS, SAMPLES_PER_STEP, StepSamples
from tests.rl.build import batch_of


def experience(batch: Batch, **parts: list[float]) -> Any:
    """Return what a step gathered, as far as samples read it."""
    found = {name: torch.tensor(values) for name, values in parts.items()}
    collector = SimpleNamespace(seen_parts=[found], reason=lambda batch, row: f"reason {row}")
    return SimpleNamespace(seen=batch, collector=collector)


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_rows_have_verdict_reason_parts_and_truncation(tmp_path: Path) -> None:
    batch = batch_of([[0.9, 0.0]])
    batch = replace(batch, finished=torch.tensor([True, False]))
    path = tmp_path / "samples.jsonl"
    StepSamples(path, 1).add(experience(batch, verified=[1.0, 0.0], length=[-0.1, torch.nan]), 1)
    worst, best = rows_of(path)
    assert (worst["response"], worst["outcome"], worst["detail"], worst["finished"]) == (
        "r1",
        "wrong",
        "reason 1",
        False,
    )
    assert worst["parts"] == {"verified": 0.0, "length": None}
    assert best["parts"] == {"verified": 1.0, "length": -0.10000000149011612}
    assert (best["step"], best["author"], best["finished"], "data" in best) == (1, "policy", True, False)


def test_the_number_of_steps_and_samples_is_bounded(tmp_path: Path) -> None:
    path, steps = tmp_path / "samples.jsonl", 5000
    kept = StepSamples(path, steps)
    for step in range(1, steps + 1):
        kept.add(experience(batch_of([[float(value) for value in range(20)]])), step)
    rows = rows_of(path)
    found = sorted({row["step"] for row in rows})
    assert (len(found), found[0], found[-1], len(rows)) == (MAX_STEPS, 1, steps, MAX_STEPS * SAMPLES_PER_STEP)
    assert [row["reward"] for row in rows[:SAMPLES_PER_STEP]] == [0, 2, 5, 8, 10, 13, 16, 19]


def test_the_last_step_of_a_run_that_ends_early_has_samples_once(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    kept = StepSamples(path, 5000)
    for step in (1, 2, 3):
        kept.add(experience(batch_of([[0.0, 1.0]])), step)
    kept.end()
    kept.end()
    assert [row["step"] for row in rows_of(path)] == [1, 1, 3, 3]


def test_a_megabyte_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    StepSamples(path, 1).add(experience(replace(batch_of([[1.0]]), texts=("x" * 1_000_000,))), 1)
    assert path.stat().st_size < 20_000


def test_parts_of_the_reward() -> None:
    one, two = torch.tensor([1.0]), torch.tensor([2.0])
    whole = placed(torch.tensor([4.0, 5.0]), torch.tensor([True, False, True]))
    assert whole.tolist()[::2] == [4.0, 5.0] and bool(whole[1].isnan())
    assert concatenated([{"a": one}, {"a": two}])["a"].tolist() == [1.0, 2.0]
    assert concatenated([]) == {}
