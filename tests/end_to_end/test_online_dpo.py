"""Recipe online-dpo: each round's pairs are written by the model of the round before, and all are held to the first."""

from __future__ import annotations

import json
from pathlib import Path

from pipelines.recipe.recipe import load_recipe
from tests.support.command_line import Project, caches

CARELESS = "[{name: careless, error_rate: 0.5}]"
SIZES = (
    *("base_steps=4", "sft_steps=2", "dpo_steps=2", "corpus_rows=120", "demo_rows=64", "prompt_rows=24", "rounds=2"),
    *("num_samples=4", "eval_rows=8", "eval_samples=2", "defaults.with.evaluate.bootstrap_samples=100"),
    "stages.base.with.architecture={width: 16, layers: 1, heads: 2, mlp_width: 24}",
    f"stages.heldout-pairs.with.programs={CARELESS}",  # the start writes nothing right
    f"stages.rounds.stages.pairs.with.programs={CARELESS}",
    "stages.rounds.stages.learn.with.batch_size=4",
)
MICRO = [word for size in SIZES for word in ("--set", size)]


def test_rounds_write_with_the_latest_model_and_are_held_to_the_first() -> None:
    stages = {stage.name: stage for stage in load_recipe("online-dpo").stages}
    assert len([name for name in stages if name.endswith("-learn")]) == 4
    for number in range(1, 5):
        before = "start" if number == 1 else f"rounds-{number - 1}-learn"
        learn = stages[f"rounds-{number}-learn"].inputs
        assert [getattr(ref, "stage", None) for ref in stages[f"rounds-{number}-pairs"].inputs["teachers"]] == [before]
        assert [getattr(ref, "stage", None) for ref in learn["model"]] == [before]
        assert [getattr(ref, "stage", None) for ref in learn["reference"]] == ["start"]
    assert [getattr(ref, "stage", None) for ref in stages["evaluate"].inputs["model"]] == ["rounds-4-learn"]


def test_it_runs_and_a_second_round_begins_away_from_its_reference(tmp_path: Path) -> None:
    project = Project(tmp_path, str(tmp_path / "store"))
    shown = project.run(*MICRO, recipe="online-dpo")
    stages = {stage["name"]: stage for stage in shown["stages"]}
    first = {}
    for number in (1, 2):
        folder = Path(stages[f"rounds-{number}-learn"]["outputs"]["metrics"]["uri"])
        first[number] = json.loads((folder / "history.jsonl").read_text().splitlines()[0])
    assert first[1]["chosen_log_ratio"] == 0, "the start is its own reference"
    assert first[2]["chosen_log_ratio"] != 0
    assert "pass_at_1_sums" in stages["evaluate"]["metrics"]
    offline = project.run(*MICRO, "--set", "rounds=1", recipe="online-dpo")
    assert {name for name, cache in caches(offline).items() if cache == "miss"} <= {"evaluate"}
