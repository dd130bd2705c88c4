"""Operators in files where their folder is not: in a container, on a second rank, behind the preset of a package."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from components.contract.artifacts import HISTORY_FILE
from components.runtime.store import open_store
from pipelines.plan.plan import build_plan
from pipelines.recipe.recipe import load_recipe
from tests.end_to_end.test_operator_files import project, run
from tests.support.command_line import Project

ROOT = Path(__file__).parents[2]
PRESET = """\
slug: brief
title: Brief
paper: "none"
summary: the reward of a file beside the preset
slots:
  rewards: [{name: ./brief.py:brief}]
  advantages: [group_mean]
  objective: {name: ppo_clip, clip_low: 0.2, clip_high: 0.2}
sources: {objective.ppo_clip.clip_low: here, objective.ppo_clip.clip_high: here}
"""
REWARD = "def brief(completions, **columns):\n    return [-float(len(text)) for text in completions]\n"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, dict[str, Any]]:
    """A project in which the recipe ran."""
    own = project(tmp_path_factory.mktemp("made"))
    return own, run(own)


def history(own: Project, shown: dict[str, Any], stage: str = "rl") -> list[dict[str, float]]:
    output = next(entry for entry in shown["stages"] if entry["name"] == stage)["outputs"]["metrics"]
    return [json.loads(line) for line in open_store(own.store).read_file(output["digest"], HISTORY_FILE).splitlines()]


def test_a_job_brings_its_files_into_a_container(made: tuple[Project, dict[str, Any]], tmp_path: Path) -> None:
    """The engine hands a container one job on standard input; of the recipe's folder it sees nothing."""
    first, shown = made
    own = Project(tmp_path / "recipe", str(tmp_path / "store"))
    shutil.copytree(first.folder, own.folder)
    shutil.move(own.folder / "store", own.store)
    recipe = load_recipe(str(own.folder / "mine.yaml"), ["rl_steps=4"])
    (job,) = [job for job in build_plan(recipe, own.store, shown["run_id"]).jobs if job.stage == "rl"]
    shutil.rmtree(own.folder)
    command = [sys.executable, "-m", "components.runtime.job.process", "-"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "POSTTRAIN_LINEAGE": "later"}
    done = subprocess.run(
        command, input=job.model_dump_json(), text=True, capture_output=True, cwd="/", env=environment, timeout=300
    )
    assert done.returncode == 0, done.stderr
    last = json.loads(done.stdout.splitlines()[-1])
    assert (last["event"], last["status"], last["cache"]) == ("finished", "done", "miss")
    assert last["metrics"]["reward_mean"] < 0  # brevity costs: the verifier alone gives 0 or more


def test_a_package_s_preset_names_a_file_beside_it(made: tuple[Project, dict[str, Any]], tmp_path: Path) -> None:
    first, _ = made
    site = tmp_path / "site"
    (site / "own_methods").mkdir(parents=True)
    (site / "own_methods" / "__init__.py").touch()
    (site / "own_methods" / "brief.yaml").write_text(PRESET)
    (site / "own_methods" / "brief.py").write_text(REWARD)
    told = site / "own_methods-1.0.dist-info"
    told.mkdir()
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: own-methods\nVersion: 1.0\n")
    (told / "entry_points.txt").write_text("[posttrain.methods]\nown = own_methods\n")
    own = Project(tmp_path / "own", str(tmp_path / "store"), {"PYTHONPATH": f"{ROOT}{os.pathsep}{site}"})
    shutil.copytree(first.folder, own.folder)
    shutil.move(own.folder / "store", own.store)
    text = (own.folder / "mine.yaml").read_text()
    (own.folder / "mine.yaml").write_text(text[: text.index("      rewards:")] + "      method: brief\n")

    shown = run(own)
    assert shown["status"] == "succeeded"
    for row in history(own, shown):
        assert -8 * 4 <= row["reward_mean"] <= 0
    (site / "own_methods" / "brief.py").write_text(REWARD.replace("-float", "-2 * float"))
    planned = {stage["name"]: stage["outlook"] for stage in own.json("plan", "mine.yaml")["stages"]}
    assert [name for name, outlook in planned.items() if outlook == "run"] == ["rl"]


@pytest.mark.deepspeed
def test_two_ranks_run_the_same_file(made: tuple[Project, dict[str, Any]], tmp_path: Path) -> None:
    first, _ = made
    shutil.copytree(first.folder, tmp_path / "own")
    own = Project(tmp_path / "own", str(tmp_path / "own" / "store"), {"DS_ACCELERATOR": "cpu"})
    two = '{"trainer": "deepspeed", "zero_stage": 0, "processes": 2}'
    shown = run(own, "--set", f"stages.rl.backend={two}")
    assert shown["status"] == "succeeded"
    rows = history(own, shown)
    assert len(rows) == 3 and all(row["reward_mean"] < 0 for row in rows)
