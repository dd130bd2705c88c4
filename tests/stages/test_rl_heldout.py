"""The held-out probe of the rl stage, and a stage whose verifier judges nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from components.contract.errors import InputError
from components.rl.alarms import RL_ALARMS
from components.rl.component import COMPONENT
from components.runtime.alarms.watch import Watch
from tests.stages.rl_stage import PARAMS, item, make_model
from tests.support.stage_context import Finished, Interrupted, run_stage, write_jsonl

pytestmark = pytest.mark.usefixtures("one_thread")
PROBE = {"every": 3, "prompts": 5, "samples": 4}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def prompts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_jsonl(tmp_path_factory.mktemp("prompts"), [item(index) for index in range(10)])


@pytest.fixture(scope="module")
def heldout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Prompts that only the digit 7 answers: what the training rewards, any letter, makes them worse."""
    rows = [item(index) | {"answer": "7", "data": {}} for index in range(20, 30)]
    return write_jsonl(tmp_path_factory.mktemp("heldout"), rows)


def train(folder: Path, model: Path, prompts: Path, held: Path | None = None, **more: Any) -> Finished:
    stop_after = more.pop("stop_after", None)
    inputs = {"model": model, "dataset": [prompts], **({"heldout": [held]} if held else {})}
    params = {**PARAMS, "steps": 7, "heldout": PROBE, **more}
    return run_stage(COMPONENT, folder, params=params, inputs=inputs, seed=3, stop_after=stop_after)


def test_it_is_measured_at_its_steps_and_changes_nothing_else(
    tmp_path: Path, model: Path, prompts: Path, heldout: Path
) -> None:
    plain = train(tmp_path / "plain", model, prompts)
    probed = train(tmp_path / "probed", model, prompts, heldout)
    assert [row["step"] for row in probed.history if "heldout_pass_rate" in row] == [1, 3, 6, 7]
    assert not any("heldout_pass_rate" in row for row in plain.history)
    for port in ("model", "rollouts"):
        assert probed.digests[port] == plain.digests[port]
    majority = [row.pop("heldout_majority_rate") for row in probed.history if "heldout_pass_rate" in row]
    assert len(majority) == 4 and all(0 <= rate <= 1 for rate in majority)
    last = probed.history[-1].pop("heldout_pass_rate")
    assert probed.metrics == plain.metrics | {"heldout_pass_rate": last}
    without = [{name: value for name, value in row.items() if name != "heldout_pass_rate"} for row in probed.history]
    assert without == plain.history


def test_a_killed_run_measures_the_same(tmp_path: Path, model: Path, prompts: Path, heldout: Path) -> None:
    straight = train(tmp_path / "straight", model, prompts, heldout)
    with pytest.raises(Interrupted):
        train(tmp_path / "killed", model, prompts, heldout, stop_after=4)
    assert train(tmp_path / "killed", model, prompts, heldout).digests == straight.digests


def test_the_same_prompts_on_both_sides_are_refused(tmp_path: Path, model: Path, prompts: Path) -> None:
    with pytest.raises(InputError, match="10 of the 10 prompts of input `heldout` are in `dataset`, such as p0"):
        train(tmp_path, model, prompts, prompts)


def test_a_held_out_rate_that_falls_while_the_reward_rises_is_an_alarm(
    tmp_path: Path, model: Path, prompts: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The reward is to write a letter, and held-out prompts ask for anything but a letter."""
    marks = [chr(code) for code in range(33, 127) if not chr(code).isalpha()]
    rows = [item(index) | {"answer": marks[0], "data": {"aliases": marks}} for index in range(20, 30)]
    held = write_jsonl(tmp_path_factory.mktemp("marks"), rows)
    probe = {"every": 1, "prompts": 10, "samples": 16}
    done = train(tmp_path, model, prompts, held, method="dr-grpo", steps=30, group_size=8, heldout=probe)
    watch = Watch([alarm for alarm in RL_ALARMS if alarm.name == "heldout_fell"])
    for row in done.history:
        watch.take(int(row["step"]), row)
    assert [raised.name for raised in watch.raised] == ["heldout_fell"]
    assert done.history[-1]["reward_mean"] > done.history[0]["reward_mean"] + 0.2


@pytest.mark.parametrize("steps", [2, 9])
def test_a_verifier_that_judges_nothing_ends_the_stage_with_its_reason(tmp_path: Path, model: Path, steps: int) -> None:
    broken = write_jsonl(tmp_path / "rows", [item(index, answer="") for index in range(10)])
    words = f"none of the first {16 * min(steps, 5)} responses could be verified: broken item: an accepted answer is"
    with pytest.raises(InputError, match=words):
        train(tmp_path / "run", model, broken, steps=steps)


def test_one_verified_response_is_enough_to_go_on(tmp_path: Path, model: Path) -> None:
    rows = [item(index, answer="" if index else "x") for index in range(10)]
    done = train(tmp_path / "run", model, write_jsonl(tmp_path / "rows", rows), steps=6)
    assert 0 < done.metrics["num_failed"] < done.metrics["num_samples"]
