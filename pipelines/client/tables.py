"""A run's stages, metrics and history as tables of pandas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

STAGES = ("component", "status", "cached", "seconds", "pool", "seed", "outputs", "error")
METRICS = ("stage", "metric", "value", "low", "high", "n")
HISTORY = ("stage", "step")


def frame(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> pd.DataFrame:
    """Return rows as a table that has at least `columns`, in this order, and then what else the rows hold."""
    import pandas as pd

    others = [name for row in rows for name in row if name not in columns]
    return pd.DataFrame(list(rows), columns=[*columns, *dict.fromkeys(others)])


def stage_table(shown: Mapping[str, Any], pools: Mapping[str, str]) -> pd.DataFrame:
    """Return a row per stage of a run, given as `posttrain show --json` has it; labels of a matrix are columns."""
    rows = [
        {
            "stage": stage["name"],
            "component": stage["component"],
            "status": stage["status"],
            "cached": stage["cache"] == "hit",
            "seconds": stage["seconds"],
            "pool": pools.get(stage["name"]),
            "seed": stage["seed"],
            "outputs": {port: output["digest"] for port, output in stage["outputs"].items()},
            "error": stage["error"] or stage["reason"],
            **beside(stage["labels"], ("stage", *STAGES)),
        }
        for stage in shown["stages"]
    ]
    return frame(rows, ["stage", *STAGES]).set_index("stage")


def beside(labels: Mapping[str, Any] | None, columns: Sequence[str]) -> dict[str, Any]:
    """Return the labels of a matrix's cell as further columns, with a mark where a column has this name already."""
    return {f"matrix.{axis}" if axis in columns else axis: value for axis, value in (labels or {}).items()}
