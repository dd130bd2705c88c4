"""SFT and RL with the tokens of each pass divided over two processes learn what two with passes of their own learn."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import Project, caches

pytestmark = [pytest.mark.deepspeed, pytest.mark.timeout(1500)]

RECIPES = Path(__file__).with_name("recipes")
BEFORE_DRAWING = ("loss", "grad_norm", "learning_rate", "num_targets")


def history(shown: dict[str, Any], name: str) -> list[dict[str, float]]:
    (stage,) = (stage for stage in shown["stages"] if stage["name"] == name)
    text = (Path(stage["outputs"]["metrics"]["uri"]) / "history.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def test_groups_of_two_learn_what_ranks_alone_learn(tmp_path: Path) -> None:
    project = Project(tmp_path, str(tmp_path / "store"))
    alone = project.run(recipe=RECIPES / "fsdp-micro.yaml")
    together = project.run(recipe=RECIPES / "context-micro.yaml")
    assert {name for name, cache in caches(together).items() if cache == "miss"} == {"sft", "prompts", "rl"}
    one, two = (history(shown, "sft") for shown in (alone, together))
    assert len(one) == len(two) == 6
    for name in BEFORE_DRAWING:
        assert [row[name] for row in two] == pytest.approx([row[name] for row in one], rel=1e-3)
    one, two = (history(shown, "rl") for shown in (alone, together))
    assert len(one) == len(two) == 6 and one[0]["grad_norm"] > 0
    # Weights differ by rounding: once one token is drawn otherwise, all later ones are.
    for name in ("reward_mean", "length_mean", "entropy", "grad_norm"):
        assert two[0][name] == pytest.approx(one[0][name], rel=1e-3, abs=1e-5), name
