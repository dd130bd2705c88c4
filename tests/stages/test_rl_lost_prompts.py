"""No prompt is lost: an rl stage in its own process, killed by SIGKILL at random instants, drawing ahead or not."""

from __future__ import annotations

import multiprocessing
import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.stages.rl_stage import item, lines, make_model, run
from tests.support.stage_context import Finished, write_jsonl

FORK = multiprocessing.get_context("fork")
"""The tests' process has imported everything and computes with one thread, so that a fork of it can go on."""
KILLS = 3
STEPS = 12
PROMPTS = 10
COUNTS = ("lost_prompts", "dropped_groups", "skipped_updates", "num_failed", "num_timeouts", "num_samples")
CASES: dict[str, dict[str, Any]] = {
    "waits": {"method": "dapo", "filters": [{"name": "dynamic_sampling", "max_refills": 1}]},
    "ahead": {
        "method": "dr-grpo",
        "rollout": {"name": "group_ahead", "max_staleness": 2},
        "advantages": ["group_mean", "truncated_importance"],
    },
}


def params_of(case: str) -> dict[str, Any]:
    return {"steps": STEPS, "checkpoint_every": 1, "save_every": 100, **CASES[case]}


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return a model and prompts, one of which no verifier can judge."""
    root = tmp_path_factory.mktemp("given")
    rows = [item(index) for index in range(PROMPTS - 1)] + [item(PROMPTS - 1, answer="")]
    return make_model(root / "model"), write_jsonl(root / "prompts", rows)


def killed_at_random(folder: Path, given: tuple[Path, Path], params: dict[str, Any], chance: random.Random) -> int:
    """Start the stage, and SIGKILL it a moment after its next checkpoint; return the step of the newest one."""
    before = newest(folder)
    process = FORK.Process(target=run, args=(folder, *given), kwargs=params)
    process.start()
    while newest(folder) <= before:
        assert process.is_alive(), "it came to its end"
        time.sleep(0.002)
    time.sleep(chance.uniform(0, 0.1))
    process.kill()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    return newest(folder)


def newest(folder: Path) -> int:
    return max((int(path.name.removeprefix("step-")) for path in folder.glob("partial/step-*")), default=0)


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("case", sorted(CASES))
def test_kills_at_random_instants_lose_no_prompt(case: str, tmp_path: Path, given: tuple[Path, Path]) -> None:
    params, chance = params_of(case), random.Random(5)
    straight = run(tmp_path / "straight", *given, **params)
    folder = tmp_path / "killed"
    folder.mkdir()
    reached = [killed_at_random(folder, given, params, chance) for _ in range(KILLS)]
    assert reached == sorted(set(reached)) and reached[0] > 0
    done = run(folder, *given, **params)
    assert done.metrics["lost_prompts"] == 0 == max(row["lost_prompts"] for row in done.history)
    assert {name: done.metrics[name] for name in COUNTS} == {name: straight.metrics[name] for name in COUNTS}
    assert done.history == straight.history and done.digests == straight.digests
    assert done.metrics["num_failed"] > 0 and any("dropped_unverified" in row for row in done.history)
    check_data_order(done, ahead=case == "ahead")


def check_data_order(done: Finished, *, ahead: bool) -> None:
    """Assert that each prompt was drawn as often as whole epochs say; the queue repeats the first four, twice."""
    samples = {row["prompt_id"]: row["num_samples"] for row in lines(done.outputs["metrics"] / "passrates.jsonl")}
    draws = sorted(count // 4 for count in samples.values())
    assert len(draws) == PROMPTS
    if ahead:  # ten steps begin a draw, and the last two need none
        assert draws == [4] * 6 + [6] * 4
    else:
        assert draws[-1] - draws[0] <= 1 and sum(draws) >= STEPS * 4
