"""Operators that a stage's sampler cannot serve: refused at validate, where the recipe chooses sampler or pool."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from components.rl.params import RLParams
from components.rl.sampler_needs import constrains
from pipelines.language.problems import RecipeErrors
from pipelines.recipe.recipe import Recipe, load_recipe

RECIPE = """\
name: drawn
summary: One rl stage
stages:
  rl:
    uses: rl
    in: {{model: "hf:a/b", dataset: "hf:c/d"}}
    {chosen}
    with: {{rollout: {rollout}, steps: 2}}
"""
REFUSED = (
    "stage 'rl' on pool {pool!r}: annealed_group changes logits before each token, which vLLM cannot do; "
    "set `backend: {{sampler: native}}` on the stage"
)


@pytest.fixture
def load(tmp_path: Path) -> Callable[..., Recipe]:
    def made(rollout: str, chosen: str = "pool: cpu") -> Recipe:
        path = tmp_path / "drawn.yaml"
        path.write_text(RECIPE.format(rollout=rollout, chosen=chosen))
        return load_recipe(str(path))

    return made


@pytest.mark.parametrize("chosen, line, pool", [("backend: {sampler: vllm}", 7, "cpu"), ("pool: h100x8", 7, "h100x8")])
def test_a_processor_on_vllm_is_one_line_at_validate(
    load: Callable[..., Recipe], chosen: str, line: int, pool: str
) -> None:
    with pytest.raises(RecipeErrors) as told:
        load("annealed_group", chosen)
    assert REFUSED.format(pool=pool) in str(told.value) and f":{line}" in str(told.value)
    assert str(told.value).count("annealed_group") == 1


def test_native_draws_it_on_any_pool(load: Callable[..., Recipe]) -> None:
    load("annealed_group")
    load("annealed_group", "pool: h100x8\n    backend: {sampler: native}")


def test_a_phase_counts_too(load: Callable[..., Recipe]) -> None:
    phases = "group, phases: [{name: a, steps: 1}, {name: b, steps: 1, slots: {rollout: {name: annealed_group}}}]"
    with pytest.raises(RecipeErrors, match="annealed_group changes logits"):
        load(phases, "backend: {sampler: vllm}")


@pytest.mark.parametrize("rollout", ["{name: constrained, max_steps: 2}", "group"])
def test_a_language_is_mapped_and_a_group_needs_nothing(load: Callable[..., Recipe], rollout: str) -> None:
    load(rollout, "backend: {sampler: vllm}")


@pytest.mark.parametrize("rollout, expected", [("constrained", True), ("group", False), ("annealed_group", False)])
def test_only_a_language_makes_an_engine_read_the_tokenizer(rollout: str, expected: bool) -> None:
    params = RLParams.model_validate({"method": "grpo", "steps": 1, "rollout": rollout})
    assert constrains(params) is expected
