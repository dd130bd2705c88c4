"""Which samples people see in MLflow."""

from __future__ import annotations

import json
from typing import Any

import pytest

from components.contract.samples import Sample
from components.runtime.lineage.delivery.sample_table import HEAD, MAX_ROWS, TAIL, sample_table


def table_of(samples: list[Sample]) -> list[dict[str, Any]]:
    table = json.loads(sample_table(samples))
    return [dict(zip(table["columns"], row, strict=True)) for row in table["data"]]


def sample(step: int, reward: float | None, outcome: str, **fields: Any) -> Sample:
    return Sample(step=step, reward=reward, outcome=outcome, response="x", **fields)


def test_rows_come_by_step_and_from_the_worst_to_the_best() -> None:
    rows = [sample(2, 1.0, "right"), sample(1, 0.5, "wrong"), sample(2, None, "failed"), sample(2, 0.0, "wrong")]
    found = table_of(rows)
    assert [(row["step"], row["reward"]) for row in found] == [(1, 0.5), (2, None), (2, 0.0), (2, 1.0)]
    assert set(found[0]) == {"step", "reward", "outcome", "response"}


def test_parts_of_the_reward_are_columns_and_long_texts_lose_their_middle() -> None:
    long = "a" * HEAD + "b" * 1000 + "c" * TAIL
    rows = [sample(1, 0.9, "right", parts={"verified": 1.0, "length": -0.1}, prompt=long), sample(2, 0.0, "wrong")]
    first, second = table_of(rows)
    assert (first["reward_verified"], first["reward_length"], second["reward_length"]) == (1.0, -0.1, None)
    assert first["prompt"] == "a" * HEAD + "\n[... 1,000 characters left out ...]\n" + "c" * TAIL


@pytest.mark.parametrize(
    "num_right, num_wrong, kept",
    [(2000, 10, (490, 10)), (2000, 2000, (250, 250)), (10, 2000, (10, 490)), (0, 3, (0, 3)), (0, 0, (0, 0))],
)
def test_many_samples_are_thinned_evenly(num_right: int, num_wrong: int, kept: tuple[int, int]) -> None:
    rows = [sample(step, 1.0, "right") for step in range(num_right)]
    rows += [sample(step, 0.0, "wrong") for step in range(num_wrong)]
    found = table_of(rows)
    counts = tuple(sum(row["outcome"] == outcome for row in found) for outcome in ("right", "wrong"))
    assert counts == kept and len(found) <= MAX_ROWS
    for outcome, number in (("right", num_right), ("wrong", num_wrong)):
        steps = [row["step"] for row in found if row["outcome"] == outcome]
        assert steps == sorted(steps) and (not steps or (steps[0], steps[-1]) == (0, number - 1))
