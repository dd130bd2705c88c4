"""Which rollouts people see in MLflow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from components.runtime.lineage.delivery.rollout_table import MAX_ROWS, rollout_table


def table_of(folder: Path, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    table = json.loads(rollout_table(folder))
    return [dict(zip(table["columns"], row, strict=True)) for row in table["data"]]


def sample(step: int, reward: float | None, outcome: str) -> dict[str, Any]:
    return {"step": step, "reward": reward, "outcome": outcome, "response": "x", "verifier": "exact"}


def test_rows_come_by_step_and_from_the_worst_to_the_best(tmp_path: Path) -> None:
    rows = [sample(2, 1.0, "right"), sample(1, 0.5, "wrong"), sample(2, None, "failed"), sample(2, 0.0, "wrong")]
    found = table_of(tmp_path, rows)
    assert [(row["step"], row["reward"]) for row in found] == [(1, 0.5), (2, None), (2, 0.0), (2, 1.0)]
    assert set(found[0]) == {"step", "reward", "outcome", "response"}


@pytest.mark.parametrize(
    "num_right, num_wrong, kept",
    [(2000, 10, (490, 10)), (2000, 2000, (250, 250)), (10, 2000, (10, 490)), (0, 3, (0, 3)), (0, 0, (0, 0))],
)
def test_a_long_record_is_thinned_evenly(num_right: int, num_wrong: int, kept: tuple[int, int], tmp_path: Path) -> None:
    rows = [sample(step, 1.0, "right") for step in range(num_right)]
    rows += [sample(step, 0.0, "wrong") for step in range(num_wrong)]
    found = table_of(tmp_path, rows)
    counts = tuple(sum(row["outcome"] == outcome for row in found) for outcome in ("right", "wrong"))
    assert counts == kept and len(found) <= MAX_ROWS
    for outcome, number in (("right", num_right), ("wrong", num_wrong)):
        steps = [row["step"] for row in found if row["outcome"] == outcome]
        assert steps == sorted(steps) and (not steps or (steps[0], steps[-1]) == (0, number - 1))
