"""A person's own 200 pairs and a reward of five lines: from nothing to compared learning rates, by commands alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.command_line import Project

REWARD = """\
def reward(completions, answer, **columns):
    scores = []
    for completion, right in zip(completions, answer):
        scores.append(1.0 if completion.strip() == right else 0.1 if completion else 0.0)
    return scores
"""
SMALL = ("--set", "rl_steps=2", "--set", "stages.tiny-model.with.steps=20")


@pytest.mark.slow
def test_as_it_comes_a_newcomer_sees_two_learning_rates_apart(tmp_path: Path) -> None:
    project = Project(tmp_path, str(tmp_path / "store"))
    project.json("new", "mine", "--from", "own-data")
    stages = {stage["name"]: stage["metrics"] for stage in project.run(recipe="mine/recipe.yaml")["stages"]}
    before, low, high = (stages[name]["pass_at_1"] for name in ("before", "after-lr-low", "after-lr-high"))
    assert 0.2 < before < 0.8 and high > low + 0.1 and high > before + 0.2, (before, low, high)


def test_from_nothing_to_two_learning_rates(tmp_path: Path) -> None:
    project = Project(tmp_path, str(tmp_path / "store"))
    begun = project.json("new", "mine", "--from", "own-data")
    assert len(begun["next"]) == 3
    rows = [{"prompt": f"{a} plus {b}?", "answer": str(a + b)} for a in range(10, 30) for b in range(1, 11)]
    assert len(rows) == 200
    (tmp_path / "mine" / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (tmp_path / "mine" / "my_reward.py").write_text(REWARD)

    recipe = "mine/recipe.yaml"
    assert "valid" in project.call("validate", recipe)
    tried = project.json("try", "mine/my_reward.py:reward", "--data", "mine/rows.jsonl", "--limit", "5")
    assert [row["value"] for row in tried["rows"]] == [1.0, 0.1] * 5
    assert tried["told_apart"] == 5
    planned = project.json("plan", recipe, *SMALL)
    arms = {"rl-lr-low", "rl-lr-high", "after-lr-low", "after-lr-high"}
    assert arms < {stage["name"] for stage in planned["stages"]}

    shown = project.json("run", recipe, *SMALL)
    assert shown["status"] == "succeeded"
    stages = {stage["name"]: stage for stage in shown["stages"]}
    models = {stages[name]["outputs"]["model"]["digest"] for name in ("rl-lr-low", "rl-lr-high")}
    assert len(models) == 2, "the learning rates make different models"
    assert all(0 <= stages[name]["metrics"]["pass_at_1"] <= 1 for name in ("after-lr-low", "after-lr-high"))

    compared = project.json("compare", "latest")
    assert compared["sides"] == ["lr=low", "lr=high"]
    rates = next(row["values"] for row in compared["params"] if row["name"].endswith("peak_learning_rate"))
    assert rates == [1.0e-4, 1.0e-3]
    paired = [row["metric"] for row in compared["differences"] if (row["arm"], row["against"]) == ("lr=high", "lr=low")]
    assert any(metric.startswith("pass_at_1") for metric in paired)

    page = Path(project.json("report", "latest")["page"]).read_text()
    assert "after-lr-low" in page and "after-lr-high" in page
