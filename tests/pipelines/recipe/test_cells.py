"""Stages that compare arms are told where their inputs come from; what the labels contradict is told before the run."""

from __future__ import annotations

from typing import Any

import pytest

from pipelines.language.problems import RecipeErrors
from pipelines.recipe.recipe import load_recipe


def table(*overrides: str) -> dict[str, Any]:
    return next(stage.params for stage in load_recipe("mixtures", overrides).stages if stage.name == "table")


def test_every_input_has_its_stage_and_labels_in_the_order_of_the_inputs() -> None:
    params = table()
    start, short, *_ = params["cells"]
    assert start == {"source": "eval-sft.metrics", "stage": "eval-sft", "labels": {}}
    assert short == {"source": "evaluate-mixture-short.metrics", "stage": "evaluate", "labels": {"mixture": "short"}}
    assert len(params["cells"]) == 11
    labels = [cell["labels"]["mixture"] for cell in params["training_cells"]]
    assert labels == list(params["fit"]["mixtures"]) and len(labels) == 10


def test_cells_that_the_recipe_gives_stay() -> None:
    given = [
        {"stage": "eval-sft", "labels": {}},
        *({"labels": {"mixture": name}} for name in table()["fit"]["mixtures"]),
    ]
    assert table(f"stages.table.with.cells={given}")["cells"] == given


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("stages.table.with.baseline=eval-sf", "no arm is called 'eval-sf'; did you mean 'eval-sft'?"),
        ("stages.table.with.fit.axis=arm", "fit.axis: no input has the axis 'arm'; there are 'mixture'"),
        ("stages.table.with.grid={rows: mixture, columns: seed}", "grid.columns: no input has the axis 'seed'"),
        ("stages.table.with.fit.mixtures.even=off", "mixtures"),
        ("stages.best-prompts.with.mixture=measured", "mixture 'measured' asks the input 'ledger'"),
    ],
)
def test_what_the_labels_contradict_is_one_line(override: str, said: str) -> None:
    with pytest.raises(RecipeErrors) as told:
        load_recipe("mixtures", [override])
    assert said in str(told.value) and "Traceback" not in str(told.value)
    assert str(told.value).count("stage 'table'") + str(told.value).count("stage 'best-prompts'") == 1
