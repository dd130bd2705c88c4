"""What a run may ask for: bounds and names are checked again, since Airflow's form and API let some of it pass."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from components.contract.errors import InputError
from pipelines.engines.shared.request import conf_of, overrides_of, requested_recipe
from pipelines.recipe.recipe import load_recipe
from tests.pipelines.writing import with_stages, write

TEXT = """
params:
  steps: {default: 10, min: 1, max: 20}
  share: 1
  wide: "${params.steps}"
"""
STAGES = """
train: {uses: sft, in: {model: base.model, dataset: data.dataset}, with: {steps: "${params.wide}"}}
often: {uses: rl, matrix: {number: "${params.many}"}, in: {model: base.model, dataset: data.dataset}}
late: {uses: evaluate, when: params.share > 1, in: {model: base.model, dataset: data.dataset}}
"""


@pytest.fixture
def recipe(toy_catalog: None, tmp_path: Path) -> str:
    """A recipe with parameters that bound, that follow one another, and that shape the graph."""
    head = TEXT + "  many: [1, 2]\n"
    return str(write(tmp_path, with_stages(STAGES, head)))


def test_what_equals_the_recipes_own_value_is_no_change(recipe: str) -> None:
    own = load_recipe(recipe)
    assert overrides_of(own, {**own.params, "seed": 0}) == []
    assert overrides_of(own, {**own.params, "steps": 5}) == ["steps=5"]
    assert requested_recipe(recipe, {**own.params, "steps": 5}).params["wide"] == 5, "it follows, untouched in the form"


def test_true_is_not_one(recipe: str) -> None:
    assert overrides_of(load_recipe(recipe), {"share": True}) == ["share=true"]


@pytest.mark.parametrize(
    ("conf", "said"),
    [
        ({"steps": 21}, "params.steps: got 21, expected at most 20"),
        ({"stepz": 5}, "unknown parameter 'stepz'; did you mean 'steps'?"),
        ({"many": [1, 2, 3]}, "stage 'often-number-3' is not in the DAG"),
        ({"many": [1]}, "stage 'often-number-2' of the DAG is not in the run"),
        ({"--set": "steps=3"}, "expected a list of texts"),
        ({"--set": ["stages.train.retries=4"]}, "stage 'train': another retries"),
        ({"seed": -1}, "seed: got -1"),
    ],
)
def test_what_is_refused(recipe: str, conf: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as caught:
        requested_recipe(recipe, conf)
    assert said in str(caught.value)


def test_a_stage_that_when_leaves_out_may_come_and_go(recipe: str) -> None:
    assert "late" not in {stage.name for stage in requested_recipe(recipe, {}).stages}
    assert "late" in {stage.name for stage in requested_recipe(recipe, {"share": 2}).stages}


def test_a_configuration_asks_for_what_the_command_line_asked_for(recipe: str) -> None:
    asked = load_recipe(recipe, ["params.steps=7", "stages.train.with.shuffle=false"], seed=4)
    conf = conf_of(asked)
    assert conf == {"steps": 7, "seed": 4, "--set": ["stages.train.with.shuffle=false"]}
    again = requested_recipe(recipe, conf)
    assert [(stage.name, stage.params, stage.seed) for stage in again.stages] == [
        (stage.name, stage.params, stage.seed) for stage in asked.stages
    ]
