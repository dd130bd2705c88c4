"""Small inputs for the tests of preference: pairs, labels and lists over the words of the supervised tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from components.modeling.loading.load import load_policy
from tests.stages.supervised_data import WORDS, demonstrations
from tests.support.stage_context import write_jsonl

WRONG = "<answer>7"


def pairs(count: int = 32) -> list[dict[str, Any]]:
    """Pairs of two domains: the demonstration's response, and one that is wrong."""
    rows = []
    for number, row in enumerate(demonstrations(count)):
        rejected = f"<answer>{WORDS[number % len(WORDS)]}" if row["domain"] == "words" else f"<think>{WRONG}"
        rows.append(
            {
                "prompt": row["prompt"],
                "chosen": row["response"],
                "rejected": rejected,
                "margin": 0.5 + number % 3,
                "domain": row["domain"],
                "label_source": "scorer",
            }
        )
    return rows


def labelled(count: int = 32) -> list[dict[str, Any]]:
    """One response a row, every second one desirable, as KTO takes them."""
    shared = [{name: row[name] for name in ("prompt", "domain")} for row in pairs(count)]
    return [
        {**own, "completion": row["chosen" if number % 2 else "rejected"], "label": bool(number % 2)}
        for number, (own, row) in enumerate(zip(shared, pairs(count), strict=True))
    ]


def lists(count: int = 16) -> list[dict[str, Any]]:
    """Three scored responses to each prompt."""
    rows = []
    for number, row in enumerate(pairs(count)):
        own = {"prompt": f"{number}: {row['prompt']}", "domain": row["domain"]}
        texts = {row["chosen"]: 1.0, row["rejected"]: 0.0, f"{row['rejected']}3": -0.5}
        rows += [{**own, "completion": text, "score": score} for text, score in texts.items()]
    return rows


def pairs_folder(folder: Path, rows: list[dict[str, Any]] | None = None) -> Path:
    """Write rows, by default the pairs, as a Dataset."""
    return write_jsonl(folder, pairs() if rows is None else rows)


def other_model(folder: Path, start: Path) -> Path:
    """Write a model like the one at `start` with other weights."""
    policy, generator = load_policy(start), torch.Generator().manual_seed(7)
    with torch.no_grad():
        for _, weights in policy.trainable():
            weights += 0.1 * torch.randn(weights.shape, generator=generator)
    policy.save(folder)
    return folder
