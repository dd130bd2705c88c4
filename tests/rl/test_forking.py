"""Which parameters of rl may differ from a checkpoint on, by what the checkpoint holds."""

from __future__ import annotations

from typing import Any

import pytest

from components.contract.forking import Held, changed
from components.rl.forking import misfits
from components.rl.params import RLParams

PLAIN = frozenset({"state.json", "weights-00000.safetensors", "optimizer-00000.safetensors"})
PHASES = [{"name": "one", "steps": 3}, {"name": "two", "steps": 7}]


def told(before: dict[str, Any], now: dict[str, Any], step: int = 4, files: frozenset[str] = PLAIN) -> list[str]:
    return list(misfits(RLParams(**before), RLParams(**now), Held(step, files)))


@pytest.mark.parametrize(
    "now",
    [
        {},
        {"objective": {"name": "ppo_clip", "clip_high": 0.3}},
        {"method": "dapo"},
        {"temperature": 0.7, "group_size": 4},
        {"steps": 100, "optimizer": {"peak_learning_rate": 1e-3}},
        {"rewards": [{"name": "pattern", "pattern": "x"}]},
        {"save_every": 3, "checkpoint_every": 1, "minibatches": 2, "micro_batch_tokens": 64},
    ],
)
def test_all_that_a_step_does_may_differ(now: dict[str, Any]) -> None:
    assert told({}, now) == []


@pytest.mark.parametrize(
    ("before", "now", "line"),
    [
        ({}, {"optimizer": {"name": "muon"}}, "optimizer.name: the checkpoint holds the averages of adamw"),
        ({}, {"lora": {"rank": 4}}, "lora changes the model's shape"),
        ({"lora": {"rank": 4}}, {"lora": {"rank": 8}}, "lora.rank changes the model's shape"),
        ({}, {"dtype": "bfloat16"}, "dtype changes the model's shape"),
        ({}, {"steps": 4}, "steps 4 end before it; give more than 4"),
        ({}, {"method": "ppo"}, "the critic needs a value model, and the checkpoint holds none"),
        ({"phases": PHASES}, {"phases": [{"name": "one", "steps": 2}, PHASES[1]]}, "phases.0: phase 'one' lies before"),
        ({"phases": PHASES}, {}, "phases.0: phase 'one' lies before"),
        ({}, {"phases": PHASES}, "phases: the first ends at step 3, and steps before the fork had no phases"),
    ],
)
def test_what_does_not_fit_is_one_line(before: dict[str, Any], now: dict[str, Any], line: str) -> None:
    found = told(before, now)
    assert len(found) == 1 and line in found[0]


def test_a_phase_that_goes_on_may_change() -> None:
    later = [PHASES[0], {"name": "two", "steps": 9, "temperature": 0.5}]
    assert told({"phases": PHASES}, {"phases": later}) == []


def test_the_value_model_that_a_checkpoint_holds_goes_on() -> None:
    assert told({"method": "ppo"}, {"method": "ppo"}, files=PLAIN | {"critic-weights-00000.safetensors"}) == []


def test_draws_that_wait_in_the_checkpoint_hold_the_sampling() -> None:
    ahead = PLAIN | {"tensors-ahead.safetensors"}
    (line,) = told({}, {"temperature": 0.7}, files=ahead)
    assert line.startswith("temperature: the checkpoint holds responses that were drawn ahead")
    assert told({}, {"objective": {"name": "ppo_clip", "clip_high": 0.3}}, files=ahead) == []


def test_changed_names_are_dotted() -> None:
    assert changed(RLParams(), RLParams(steps=3, optimizer={"eps": 1e-6})) == ["steps", "optimizer.eps"]
