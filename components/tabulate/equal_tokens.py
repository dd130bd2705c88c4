"""Trainings compared at equal sampled tokens: each arm's curve where the arm that sampled least has ended."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from components.contract.artifacts import HISTORY_FILE
from components.contract.context import Input
from components.contract.errors import InputError
from components.measure.intervals import seed_interval
from components.tabulate.arms import Repeat, cells_of
from components.tabulate.params import Cell, arm_name

Curve = list[tuple[float, float]]
"""(tokens sampled so far, value), rising in tokens."""


def read_curve(folder: Path, column: str) -> Curve:
    """Return a training's curve from its history; raise InputError if it has no tokens or no such column."""
    path = folder / HISTORY_FILE
    if not path.is_file():
        raise InputError(f"{folder}: no {HISTORY_FILE}; input 'training' takes metrics of rl stages")
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    if not rows or any("num_tokens" not in row for row in rows):
        raise InputError(f"{path}: not every row has num_tokens; input 'training' takes metrics of rl stages")
    curve, tokens = [], 0.0
    for row in rows:
        tokens += row["num_tokens"]
        if column in row:
            curve.append((tokens, float(row[column])))
    if not curve:
        known = ", ".join(sorted({name for row in rows for name in row}))
        raise InputError(f"{path}: no row has {column!r} (curve); the history has {known}")
    return curve


def value_at(curve: Curve, tokens: float) -> float | None:
    """Return a curve's value after so many tokens, linear between its points; None before the first."""
    if tokens < curve[0][0]:
        return None
    for (before, first), (after, second) in pairwise(curve):
        if before <= tokens <= after:
            return first + (second - first) * (tokens - before) / (after - before) if after > before else second
    return curve[-1][1]


def compare_at_equal_tokens(
    inputs: Sequence[Input],
    cells: Sequence[Cell],
    column: str,
    *,
    repeats: tuple[str, ...],
    baseline: str | None,
    confidence: float,
) -> dict[str, Any]:
    """Return the common number of tokens, and each arm's value there with its paired difference from the baseline.

    Intervals are Student's t over repeats; one repeat has none.
    """
    curves: dict[str, dict[Repeat, Curve]] = {}
    for found, cell in zip(inputs, cells_of(inputs, cells), strict=True):
        repeat = tuple(cell.labels.get(axis, "") for axis in repeats)
        curves.setdefault(arm_name(cell, repeats), {})[repeat] = read_curve(found.path, column)
    tokens = min(curve[-1][0] for found in curves.values() for curve in found.values())
    values = {
        name: {repeat: at for repeat, curve in found.items() if (at := value_at(curve, tokens)) is not None}
        for name, found in curves.items()
    }
    theirs = values.get(baseline or "", {})
    rows = []
    for name, found in values.items():
        changes = [at - theirs[repeat] for repeat, at in found.items() if repeat in theirs] if name != baseline else []
        rows.append(
            {
                "arm": name,
                "value": seed_interval(list(found.values()), confidence=confidence).to_json() if found else None,
                "difference": seed_interval(changes, confidence=confidence).to_json() if changes else None,
                "tokens_in_all": max(curve[-1][0] for curve in curves[name].values()),
            }
        )
    return {"column": column, "tokens": tokens, "rows": rows}
