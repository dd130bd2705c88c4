"""The kill contract: SIGKILL at any instant and run again; the bytes are those of a run that was never killed."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from components.contract.artifacts import hash_file
from tests.support.command_line import LIMIT_SECONDS, MICRO, Project, caches, digests

Finished = tuple[Project, dict[str, Any]]
NUM_KILLS = 25
DEFAULT_KILLS = 3


def kill_after(project: Project, seconds: float) -> bool:
    """Start the recipe and SIGKILL every process of it after some time; return whether it was still going on."""
    process = project.start("run", str(MICRO), "--json")
    try:
        process.communicate(timeout=seconds)
        return False
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return True


def model_bytes(project: Project, shown: dict[str, Any]) -> str:
    """Return the hash of the selected model's weights as they lie on disk."""
    model = next(stage for stage in shown["stages"] if stage["name"] == "select")["outputs"]["model"]
    return hash_file(Path(model["uri"]) / "model.safetensors")


def kill_soon_after_progress(project: Project, chance: random.Random) -> None:
    """Start the recipe, let it finish a stage or keep a checkpoint that it did not have, and SIGKILL it soon after."""

    def kept() -> set[Path]:
        store = Path(project.store)
        return {*store.glob("partial/*/*/manifest.json"), *store.glob("ledger/*/stages/*.json")}

    before, deadline = kept(), time.monotonic() + LIMIT_SECONDS
    process = project.start("run", str(MICRO), "--json")
    while kept() <= before:
        assert process.poll() is None and time.monotonic() < deadline, "it came no further"
        time.sleep(0.02)
    try:
        process.communicate(timeout=chance.uniform(0, 3))
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    assert process.returncode == -signal.SIGKILL, "it came to its end"


def test_a_run_killed_again_and_again_ends_in_the_same_bytes(finished: Finished, tmp_path: Path) -> None:
    """Kills while it starts are among those at 25 random instants."""
    straight_project, straight = finished
    project = Project(tmp_path, str(tmp_path / "store"))
    chance = random.Random(11)
    for _ in range(DEFAULT_KILLS):
        kill_soon_after_progress(project, chance)
    project.run()
    (run,) = project.json("list", "runs")["runs"]  # a killed run goes on; it does not begin anew
    shown = project.json("show", run["run_id"])
    assert shown["status"] == "succeeded"
    assert digests(shown) == digests(straight)
    assert model_bytes(project, shown) == model_bytes(straight_project, straight)
    assert set(caches(shown).values()) == {"miss"}, "what the run itself had made before a kill is no cache hit"


@pytest.mark.slow
def test_kill_at_25_random_instants(finished: Finished, tmp_path: Path) -> None:
    straight_project, straight = finished
    chance = random.Random(25)
    whole = straight["seconds"]
    outcomes = []
    for number in range(NUM_KILLS):
        folder = tmp_path / str(number)
        folder.mkdir()
        project = Project(folder, str(folder / "store"))
        instant = chance.uniform(0.5, whole)
        killed = kill_after(project, instant)
        shown = project.run()
        assert digests(shown) == digests(straight), f"killed after {instant:.1f} s"
        assert model_bytes(project, shown) == model_bytes(straight_project, straight)
        outcomes.append({"instant": round(instant, 2), "killed": killed})
    print(json.dumps(outcomes))
    assert sum(item["killed"] for item in outcomes) >= NUM_KILLS // 2
