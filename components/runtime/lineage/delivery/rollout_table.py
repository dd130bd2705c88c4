"""Rollouts as an MLflow table: samples of a run by step and reward, for people to read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

TABLE = "rollouts.json"
"""Path of the table in the MLflow run."""
TABLE_TAG = {"mlflow.loggedArtifacts": json.dumps([{"path": TABLE, "type": "table"}])}
"""Tag that marks the file as a table for MLflow's UI."""
MAX_ROWS = 500
COLUMNS = ("step", "reward", "outcome", "domain", "num_tokens", "prompt", "response", "answer", "prompt_id")


def rollout_table(folder: Path) -> str:
    """Return the rows of a Rollouts folder in the format of MLflow's tables (pandas, orient "split").

    Rows are sorted by step, then by reward, worst first. Beyond 500 rows, half of the table is for responses that are
    not right, if there are that many, and each half is sampled evenly.
    """
    lines = [line for path in sorted(folder.glob("*.jsonl")) for line in path.read_text(encoding="utf-8").splitlines()]
    rows = [json.loads(line) for line in lines]
    rows.sort(key=_place)
    right = [row for row in rows if row.get("outcome") == "right"]
    others = [row for row in rows if row.get("outcome") != "right"]
    num_others = max(MAX_ROWS // 2, MAX_ROWS - len(right))
    others = _spread(others, num_others)
    kept = sorted([*others, *_spread(right, MAX_ROWS - len(others))], key=_place)
    columns = [name for name in COLUMNS if any(name in row for row in kept)]
    return json.dumps({"columns": columns, "data": [[row.get(name) for name in columns] for row in kept]})


def _place(row: dict[str, Any]) -> tuple[float, float]:
    reward = row.get("reward")
    return row.get("step") or 0, float("-inf") if reward is None else reward


def _spread(rows: Sequence[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    """Return up to `count` evenly spaced rows, including the first and the last."""
    if len(rows) <= count:
        return list(rows)
    return [rows[place * (len(rows) - 1) // max(1, count - 1)] for place in range(count)]
