"""Drawing ahead is the default where an engine has GPUs, and nowhere else."""

from __future__ import annotations

from typing import Any

import pytest

from components.contract.job import Resources
from components.rl.component import COMPONENT
from components.rl.params import RLParams
from components.rl.presets import bind, preset_names
from components.runtime.ledger.fingerprint import fingerprint

ENGINE = Resources(pool="h100x1", gpus=1, sampler="vllm")
OTHERS = (
    Resources(),
    Resources(sampler="vllm"),
    Resources(gpus=1, sampler="native"),
)


def settled(given: dict[str, Any], resources: Resources = ENGINE) -> RLParams:
    found = COMPONENT.settled(RLParams.model_validate(given), resources)
    assert isinstance(found, RLParams)
    return found


def test_an_engine_on_gpus_draws_one_step_ahead_and_is_corrected() -> None:
    slots = bind(settled({"method": "grpo"}).slots())
    assert slots.rollout.name == "group_ahead" and slots.rollout.config.max_staleness == 1  # type: ignore[attr-defined]
    assert [bound.name for bound in slots.advantages] == ["group_mean_std", "truncated_importance"]
    assert slots.corrects_itself


@pytest.mark.parametrize("resources", OTHERS)
def test_elsewhere_nothing_changes(resources: Resources) -> None:
    params = RLParams.model_validate({"method": "grpo"})
    assert COMPONENT.settled(params, resources) is params


@pytest.mark.parametrize(
    "given",
    [
        {"rollout": "group"},
        {"rollout": {"name": "group_ahead", "max_staleness": 3}},
        {"steps": 1},
        {"phases": [{"name": "a", "steps": 2, "slots": {"rollout": "group"}}]},
        {"phases": [{"name": "a", "steps": 2, "slots": {"advantages": ["group_mean"]}}]},
    ],
)
def test_what_the_recipe_chose_stays(given: dict[str, Any]) -> None:
    params = RLParams.model_validate({"method": "grpo", **given})
    assert COMPONENT.settled(params, ENGINE) is params


def test_a_correction_that_is_there_stays_the_only_one() -> None:
    given = {"method": "dr-grpo", "advantages": ["group_mean", {"name": "truncated_importance", "cap": 3.0}]}
    chosen = settled(given)
    assert [bound.name for bound in bind(chosen.slots()).advantages] == ["group_mean", "truncated_importance"]
    assert bind(chosen.slots()).advantages[1].config.cap == 3.0  # type: ignore[attr-defined]


def test_the_fingerprint_tells_it_apart_on_gpus_only() -> None:
    params = RLParams.model_validate({"method": "grpo"})
    inputs = {"model": ["sha256:1"], "dataset": ["sha256:2"]}

    def mark(chosen: object, resources: Resources) -> dict[str, Any]:
        return fingerprint(COMPONENT, chosen, inputs, 1, resources, verifiers=()).parts  # type: ignore[arg-type]

    waits, ahead = mark(params, ENGINE), mark(COMPONENT.settled(params, ENGINE), ENGINE)
    assert waits["params"] != ahead["params"] and waits["operators"] != ahead["operators"]
    cpu = Resources(sampler="vllm")
    assert mark(params, cpu) == mark(COMPONENT.settled(params, cpu), cpu)


def test_every_method_is_settled_once() -> None:
    """Methods with a rollout of their own keep it; settled again, nothing changes."""
    ahead = 0
    for name in preset_names():
        before, after = RLParams.model_validate({"method": name}), settled({"method": name})
        assert COMPONENT.settled(after, ENGINE) == after
        if after is before or before.slots().rollout.name != "group":
            assert after.slots().rollout == before.slots().rollout
        ahead += bind(after.slots()).rollout.name == "group_ahead"
    assert ahead > 20
