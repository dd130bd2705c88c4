"""Which parameters of supervised training may differ from a checkpoint on."""

from __future__ import annotations

from typing import Any

import pytest

from components.contract.forking import Held
from components.modeling.supervised.forking import misfits
from components.sft.params import SftParams

HELD = Held(4, frozenset({"state.json"}))


def told(now: dict[str, Any]) -> list[str]:
    return list(misfits(SftParams(steps=10), SftParams(**{"steps": 10, **now}), HELD))


@pytest.mark.parametrize(
    "now",
    [
        {},
        {"optimizer": {"peak_learning_rate": 1e-5, "schedule": "cosine", "clip_norm": None}},
        {"steps": 20, "save_every": 2, "log_every": 2, "micro_batch_tokens": 128, "checkpoint_minutes": 1},
    ],
)
def test_what_a_step_does_may_differ(now: dict[str, Any]) -> None:
    assert told(now) == []


@pytest.mark.parametrize(
    ("now", "line"),
    [
        ({"steps": 4}, "steps 4 end before it; give more than 4"),
        ({"batch_size": 8}, "batch_size changes which rows are trained on, or their order"),
        ({"mixture": {"a": 1.0}}, "mixture.a changes which rows are trained on"),
        ({"max_tokens": 64}, "max_tokens changes which rows"),
        ({"learn": "last"}, "learn changes which rows"),
        ({"lora": {"rank": 2}}, "lora changes the model's shape"),
        ({"optimizer": {"name": "muon"}}, "the checkpoint holds the averages of adamw, which muon cannot use"),
    ],
)
def test_what_does_not_fit_is_one_line(now: dict[str, Any], line: str) -> None:
    found = told(now)
    assert len(found) == 1 and line in found[0]
