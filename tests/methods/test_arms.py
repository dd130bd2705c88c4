"""Arms differ only in what somebody named: a testbed's arm of the same name does not slip into a method's own."""

from __future__ import annotations

from typing import Any

import pytest

from components.contract.operators import OperatorSpec
from components.rl.params import RLParams, step_slots
from pipelines.language.find import FOLDER as RECIPES
from pipelines.recipe.recipe import load_recipe

SLUGS = sorted(path.stem for path in (RECIPES / "methods").glob("*.yaml"))


def arms_of(slug: str) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Return each arm's parameters of `rl`, and what the method's own file says of it."""
    recipe = load_recipe(f"methods/{slug}")
    seeds = [stage.labels.get("seed") for stage in recipe.stages]
    found = {
        stage.labels["arm"]: stage.params
        for stage in recipe.stages
        if stage.group == "rl" and "arm" in stage.labels and stage.labels.get("seed") == next(filter(None, seeds), None)
    }
    own = recipe.documents[0].root.find(("matrix", "arm"))
    return found, own.plain() if own else {}


@pytest.mark.parametrize("slug", SLUGS)
def test_an_arm_with_a_method_of_its_own_takes_no_slot_from_the_testbeds_arm(slug: str) -> None:
    params, own = arms_of(slug)
    if "method" not in params or "baseline" not in params or "method" not in own.get("baseline", {}):
        pytest.skip("its arms are not two settings of rl, or its baseline is the testbed's")
    slots = {arm: RLParams.model_validate(params[arm]).slots() for arm in ("method", "baseline")}
    preset = RLParams.model_validate({"method": params["baseline"]["method"], "steps": 1}).slots()
    named = {*own["baseline"], *own.get("method", {})}
    for slot in step_slots():
        if slot not in named and slot in params["baseline"]:
            theirs, ours = (_plain(vars(slots[arm])[slot]) for arm in ("baseline", "method"))
            assert theirs in (ours, _plain(vars(preset)[slot])), f"{slot} of the baseline is the testbed's alone"


def _plain(given: OperatorSpec | tuple[OperatorSpec, ...]) -> Any:
    return [_plain(each) for each in given] if isinstance(given, tuple) else given.model_dump()
