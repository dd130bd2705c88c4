"""Remarks on the choice of slots: each where its condition holds, none elsewhere, and never an error."""

from __future__ import annotations

from typing import Any

import pytest

from components.contract.display import Role
from components.rl.component import COMPONENT
from components.rl.params import RLParams
from components.rl.presets import preset_names
from pipelines.cli import main
from pipelines.plan.advice import advice
from pipelines.recipe.recipe import load_recipe

TRAINED, BASE = Role.TRAINING, Role.PRETRAINING


def remarks(maker: Role | None = TRAINED, **params: Any) -> list[str]:
    assert COMPONENT.advice is not None
    return list(COMPONENT.advice(RLParams.model_validate(params), {"model": [maker] if maker else []}))


GRADED = ["verifier", "overlong"]


@pytest.mark.parametrize(
    "maker, params, words",
    [
        (TRAINED, {"method": "grpo", "rewards": GRADED}, "differ only in overlong"),
        (TRAINED, {"method": "grpo", "minibatches": 4}, "such as clip_high 0.28"),
        (TRAINED, {"method": "grpo", "epochs": 2}, "such as clip_high 0.28"),
        (BASE, {"method": "grpo", "minibatches": 4}, "than from denominator responses"),
        (
            Role.TRAINING,
            {"method": "grpo", "filters": ["drop_truncated"], "max_new_tokens": 16384},
            "up to 16,384 tokens",
        ),
    ],
)
def test_a_guideline_that_is_not_followed_is_named(maker: Role, params: dict[str, Any], words: str) -> None:
    (line,) = remarks(maker, **params)
    assert words in line and "arXiv:2508.08221" in line


def test_drawing_ahead_without_its_correction_is_named() -> None:
    ahead: dict[str, Any] = {"method": "dr-grpo", "rollout": "group_ahead"}
    (line,) = remarks(**ahead)
    assert "group_ahead without truncated_importance" in line
    assert remarks(**ahead, advantages=["group_mean", "truncated_importance"]) == []


@pytest.mark.parametrize(
    "maker, params",
    [
        (TRAINED, {"method": "lite-ppo"}),
        (TRAINED, {"method": "grpo"}),  # one update for each batch: no clip acts
        (
            Role.TRAINING,
            {"method": "dapo", "minibatches": 4},
        ),  # dynamic sampling leaves no group that differs in length only
        (BASE, {"method": "lite-ppo", "minibatches": 4}),
        (None, {"method": "grpo", "minibatches": 4}),  # a model from outside: aligned or not is not known
        (TRAINED, {"method": "grpo", "filters": ["drop_truncated"], "max_new_tokens": 8192}),
        (TRAINED, {"method": "grpo", "rewards": GRADED, "advantages": ["group_mean"]}),
        (TRAINED, {"method": "grpo", "rewards": ["verifier", {"name": "overlong", "weight": 0}]}),  # only watched
        (TRAINED, {"method": "grpo", "rewards": GRADED, "combine": {"name": "gate", "by": ["overlong"]}}),
        (TRAINED, {"method": "rlpr"}),  # no verdict that the parts could drown
    ],
)
def test_nothing_is_said_where_a_guideline_holds_or_does_not_apply(maker: Role | None, params: dict[str, Any]) -> None:
    assert remarks(maker, **params) == []


def test_phases_are_read_and_a_remark_comes_once() -> None:
    wide = {"name": "a", "steps": 1, "slots": {"objective": {"name": "ppo_clip", "clip_high": 0.28}}}
    narrow = [{"name": "b", "steps": 1}, {"name": "c", "steps": 1}]
    assert len(remarks(method="grpo", minibatches=4, phases=[wide, *narrow])) == 1
    assert remarks(method="grpo", minibatches=4, phases=[wide]) == []


@pytest.mark.parametrize("method", preset_names())
def test_every_method_can_be_remarked_on(method: str) -> None:
    assert all("\n" not in line for line in remarks(method=method, minibatches=4))


def test_notes_name_the_stages_once_and_are_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    settings = ["matrix.arm.baseline.minibatches=4", "matrix.arm.wide={method: lite-ppo}"]
    recipe = load_recipe("testbed", settings)
    (note,) = advice(recipe)
    assert note.startswith("rl-seed-0-arm-baseline and 2 more: an aligned model")
    assert main(["validate", "testbed", "--set", settings[0], "--set", settings[1]]) == 0
    assert f"note: {note}\n" in capsys.readouterr().out
    assert advice(load_recipe("testbed")) == []
