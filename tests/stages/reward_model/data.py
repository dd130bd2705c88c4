"""Small inputs for the tests of stage reward_model: a base model, pairs, labelled responses, and steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.stages.supervised_data import base_model
from tests.support.stage_context import write_jsonl

COUNT = 48


def pairs(count: int = COUNT) -> list[dict[str, Any]]:
    """Rows of two domains: the right sum is chosen, or the word that is spelled backward; every third has a margin."""
    rows = []
    for index in range(count):
        a, b = index % 5, index % 7
        row = {
            "prompt": f"What is the sum: {a} + {b} =",
            "chosen": f"<answer>{a + b}",
            "rejected": f"<answer>{a + b + 1}",
        }
        if index % 2:
            row = {
                "prompt": f"Spell backward: cat{'s' * a}",
                "chosen": f"<answer>{'s' * a}tac",
                "rejected": "<answer>cat",
            }
        domain = "words" if index % 2 else "sums"
        rows.append({"id": f"pair-{index}", "domain": domain, **row, **({"margin": 0.5} if index % 3 == 0 else {})})
    return rows


def labelled(count: int = COUNT) -> list[dict[str, Any]]:
    """The sides of the pairs, each with its label and a score."""
    return [
        {"prompt": row["prompt"], "completion": row[side], "label": good, "score": 0.9 if good else 0.25}
        for row in pairs(count // 2)
        for side, good in (("chosen", True), ("rejected", False))
    ]


def stepwise(count: int = COUNT) -> list[dict[str, Any]]:
    """Responses of two steps, the second of which is wrong in every other one."""
    return [
        {
            "prompt": f"What is the sum: {index % 5} + 1 =",
            "completions": ["one more", f"<answer>{index % 5 + 1}" if index % 2 else "<answer>cat"],
            "labels": [True, bool(index % 2)],
        }
        for index in range(count)
    ]


def inputs(folder: Path, rows: list[dict[str, Any]]) -> dict[str, Path]:
    """Write a base model and rows; return the inputs of the stage."""
    return {"model": base_model(folder / "model"), "dataset": write_jsonl(folder / "data", rows)}
