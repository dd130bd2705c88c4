"""RLHF from end to end: a reward model of pairs, RL on its scores, gold beside proxy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import Project

SMALL = {
    "base_steps": 40,
    "sft_steps": 10,
    "reward_steps": 6,
    "rl_steps": 3,
    "corpus_rows": 400,
    "demo_rows": 128,
    "pair_prompts": 24,
    "prompt_rows": 64,
    "eval_rows": 12,
    "eval_samples": 2,
}
CARELESS = "[{name: notes, drop: 0.4, swap: 0.5}]"
CUT = {
    "stages.pairs.with.programs": CARELESS,  # the start of so few steps writes nothing that differs in gold
    "stages.heldout-pairs.with.programs": CARELESS,
    "stages.rl.with.prompts_per_step": 4,
    "stages.rl.with.group_size": 4,
    "stages.base.with.architecture": "{width: 32, layers: 1, heads: 2, mlp_width: 64}",
}


def history_of(stage: dict[str, Any]) -> list[dict[str, float]]:
    """Return the rows of an rl stage, one for each step."""
    text = (Path(stage["outputs"]["metrics"]["uri"]) / "history.jsonl").read_text()
    rows = [json.loads(line) for line in text.splitlines()]
    assert len(rows) == SMALL["rl_steps"]
    return rows


@pytest.mark.slow  # fifteen stages
def test_gold_and_proxy_stand_beside_each_other_at_every_step(tmp_path: Path) -> None:
    chosen = [f"--set={key}={value}" for key, value in (SMALL | CUT).items()]
    shown = Project(tmp_path, str(tmp_path / "store")).run("--jobs", "1", *chosen, recipe="rlhf")
    stages = {stage["name"]: stage for stage in shown["stages"]}
    assert stages["reward_model"]["metrics"]["num_measured"] > 0
    for row in (row for name in ("rl", "rl-free") for row in history_of(stages[name])):
        assert row["reward_mean"] == pytest.approx(row["reward_scorer"], abs=1e-5), "gold is watched, not learned from"
        assert 0 <= row["reward_score"] <= 1 and row["scorer_failed"] == 0
    for name in ("eval-sft", "evaluate", "eval-free"):
        assert {"reward_notes", "score_notes"} <= stages[name]["metrics"].keys()
    assert "best_reward_at_2_notes" in stages["eval-sft"]["metrics"]
    config = json.loads((Path(stages["reward_model"]["outputs"]["model"]["uri"]) / "config.json").read_text())
    assert config["architectures"] == ["LlamaForSequenceClassification"]
