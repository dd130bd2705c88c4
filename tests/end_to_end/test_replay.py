"""Steps of a real training made again, bit for bit or with the place where they part, and judged by another reward."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import Project, digests

Finished = tuple[Project, dict[str, Any]]
KEEPING = ("--set", "stages.rl.with.checkpoint_every=2", "--set", "stages.rl.keep_partial=every 2")
AHEAD = ("--set", "stages.rl.with.rollout={name: group_ahead, max_staleness: 2}")
NUM_RANDOM, STEPS = 20, 60


@pytest.fixture
def parent(copied: Finished) -> Finished:
    """A run of the micro recipe that kept the checkpoints of rl's steps 2 and 4."""
    project, straight = copied
    shown = project.run(*KEEPING)
    assert digests(shown) == digests(straight)
    return project, shown


def replayed(project: Project, shown: dict[str, Any], step: int, *more: str, code: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        project.call("replay", f"{shown['run_id']}:rl", "--step", str(step), *more, "--json", code=code)
    )
    return found


def refused(project: Project, *arguments: str) -> str:
    process = project.start(*arguments)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (2, ""), out + err
    (line,) = err.splitlines()
    return line


def test_steps_are_made_again_from_the_newest_checkpoint_before_them(parent: Finished) -> None:
    project, shown = parent
    before = digests(shown)
    for step, begin in ((3, 2), (6, 4)):
        found = replayed(project, shown, step)
        assert (found["equal"], found["parted"], found["from"]) == (True, None, begin)
        assert found["line"]["drawn"] == [[step - 1, 32]]
    other = replace(project, environment={**project.environment, "POSTTRAIN_PRODUCTS": "mkl"})
    assert replayed(other, shown, 5)["equal"], "products are those that the stage used"
    left = [path for name in ("partial", "scratch") for path in (Path(project.store) / name).glob("*/*")]
    assert left == [], "a replay leaves nothing in the store"
    assert digests(project.json("show", shown["run_id"])) == before


def test_without_a_checkpoint_it_says_what_it_would_cost_and_does_it_when_asked(parent: Finished) -> None:
    project, shown = parent
    line = refused(project, "replay", f"{shown['run_id']}:rl", "--step", "2")
    assert "kept no checkpoint before step 2: steps 1 to 2 would all have to be run again, about" in line
    assert "--from-start does that" in line
    found = replayed(project, shown, 2, "--from-start")
    assert (found["equal"], found["from"]) == (True, 0)


def test_bad_input_of_both_commands_is_one_line(parent: Finished, tmp_path: Path) -> None:
    project, shown = parent
    run = shown["run_id"]
    (project.folder / "mine.py").write_text("def f(completions, solution):\n    return [0.0 for _ in completions]\n")
    assert "recorded steps 1 to 6, and no step 7" in refused(project, "replay", f"{run}:rl", "--step", "7")
    assert "'sft' of run" in refused(project, "replay", f"{run}:sft", "--step", "1")
    assert "did you mean 'rl'?" in refused(project, "replay", f"{run}:rll", "--step", "1")
    assert "name what judges" in refused(project, "rescore", run)
    assert "did you mean 'verifier'?" in refused(project, "rescore", run, "--reward", "verifer")
    assert "recorded steps 1 to 6, and not step 9" in refused(
        project, "rescore", run, "--reward", "verifier", "--steps", "9"
    )
    process = project.start("rescore", run, "--reward", "./mine.py:f")
    _, err = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "takes solution, which these rows lack" in err and len(err.splitlines()) == 1


def test_draws_ahead_are_made_again_and_a_reward_that_does_not_repeat_is_where_they_part(parent: Finished) -> None:
    project, _ = parent
    (project.folder / "noise.py").write_text(
        "import time\n\n\ndef noise(completions):\n    return [time.time_ns() % 7 for _ in completions]\n"
    )
    ahead = project.run(*KEEPING, *AHEAD)
    found = replayed(project, ahead, 6)
    assert found["equal"] and found["line"]["drawn"] == [[3, 32]]
    noisy = project.run(*KEEPING, *AHEAD, "--set", "stages.rl.with.rewards=[./noise.py:noise]")
    found = replayed(project, noisy, 4, code=1)
    assert (found["equal"], found["parted"]["step"], found["parted"]["what"]) == (False, 3, "rewards")
    assert found["changed_code"] == []


def test_rescore_judges_by_a_file_and_writes_a_page(parent: Finished) -> None:
    project, shown = parent
    (project.folder / "brief.py").write_text(
        "def brief(completions):\n    return [-len(text) for text in completions]\n"
    )
    found = project.json("rescore", shown["run_id"], "--reward", "./brief.py:brief", "--html")
    assert (found["num_steps"], found["num_responses"]) == (6, 192)
    assert sum(found["kinds"].values()) == 48
    page = (project.folder / "rescore.html").read_text()
    assert "brief.py:brief" in page and "groups with a signal by both rewards flip" in page
    same = project.json("rescore", shown["run_id"], "--reward", "{name: pattern, pattern: '[0-9]'}", "--steps", "2-4")
    assert (same["num_steps"], same["num_flipped"], same["then"]) == (3, 0, same["now"])
    assert same["kinds"]["flip"] == same["kinds"]["gain a signal"] == same["kinds"]["lose their signal"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("rollout", [(), AHEAD], ids=["on policy", "ahead"])
def test_random_steps_are_equal_bit_for_bit(copied: Finished, rollout: tuple[str, ...]) -> None:
    project, _ = copied
    keeping = ("--set", "stages.rl.with.checkpoint_every=10", "--set", "stages.rl.keep_partial=every 10")
    shown = project.run("--set", f"rl_steps={STEPS}", *keeping, *rollout)
    steps = random.Random(20).sample(range(11, STEPS + 1), NUM_RANDOM // 2)
    found = [replayed(project, shown, step) for step in steps]
    assert [one["equal"] for one in found] == [True] * len(steps)
