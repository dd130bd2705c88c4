"""Roles in the rl stage: a frozen actor from a port, a killed stage that ends in the same bytes, and refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from components.contract.errors import InputError
from components.rl.component import COMPONENT
from tests.stages.rl_stage import PARAMS, item, make_model
from tests.stages.test_rl_distillation import make_teacher
from tests.support.stage_context import Interrupted, run_stage, write_jsonl

pytestmark = pytest.mark.usefixtures("one_thread")

TURNS = [
    {"role": "actor", "by": "partner"},
    {"role": "critic", "question": "check {prompt} {actor}", "judges": "actor", "words": ["a", "b"]},
    {"role": "reviser", "by": "partner", "question": "mend {actor} {critic}", "temperature": 0},
]
ROLES: dict[str, Any] = PARAMS | {
    "method": "rloo",
    "rollout": {"name": "roles", "turns": TURNS},
    "rewards": [{"name": "verifier"}, {"name": "revision", "right": 1.2, "wrong": 0.2}],
    "combine": {"name": "sum"},
    "regularizers": [],
    "reference": "none",
}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("inputs")
    return {
        "model": make_model(folder / "model"),
        "dataset": [write_jsonl(folder / "prompts", [item(index) for index in range(10)])],
        "partners": [make_teacher(folder / "actor")],
    }


@pytest.mark.parametrize("stop_after", [2, 4])
def test_a_killed_stage_ends_with_the_same_bytes(stop_after: int, inputs: dict[str, Any], tmp_path: Path) -> None:
    straight = run_stage(COMPONENT, tmp_path / "straight", params=ROLES, inputs=inputs, seed=3)
    with pytest.raises(Interrupted):
        run_stage(COMPONENT, tmp_path / "killed", params=ROLES, inputs=inputs, seed=3, stop_after=stop_after)
    resumed = run_stage(COMPONENT, tmp_path / "killed", params=ROLES, inputs=inputs, seed=3)
    assert resumed.digests == straight.digests
    assert resumed.history == straight.history and resumed.metrics == straight.metrics
    row = straight.history[0]
    assert row["partner_texts"] > 0 and {"actor_right", "critic_right", "reviser_right"} <= row.keys()
    assert straight.metrics["lost_prompts"] == 0


def test_a_partner_that_is_not_connected_is_told(inputs: dict[str, Any], tmp_path: Path) -> None:
    turns = [TURNS[0] | {"model": 1}, *TURNS[1:]]
    params = ROLES | {"rollout": {"name": "roles", "turns": turns}}
    with pytest.raises(InputError, match="no model 1 at input partners"):
        run_stage(COMPONENT, tmp_path, params=params, inputs=inputs, seed=3)


def test_long_texts_of_a_role_do_not_end_the_stage(inputs: dict[str, Any], tmp_path: Path) -> None:
    turns = [*TURNS[:2], TURNS[2] | {"question": "{critic}" + 2048 * "x"}]
    params = ROLES | {"rollout": {"name": "roles", "turns": turns}, "rewards": ["verifier"], "steps": 2}
    told = run_stage(COMPONENT, tmp_path, params=params, inputs=inputs, seed=3)
    assert [row["questions_too_long"] for row in told.history] == [16, 16]
    assert not any("reviser_right" in row for row in told.history)
