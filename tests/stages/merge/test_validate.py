"""What `validate` says of a recipe that merges: outputs, inputs, the number of models, and folders that are here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from pipelines.language.problems import RecipeErrors
from pipelines.plan.known import known_problems
from pipelines.recipe.recipe import load_recipe
from tests.stages.merge.folders import folder_of


def told(tmp: Path, stages: dict[str, Any]) -> list[str]:
    """Return every problem of a recipe, as validate shows them."""
    path = tmp / "recipe.yaml"
    path.write_text(yaml.safe_dump({"name": "toy", "summary": "toy", "seed": 0, "stages": stages}))
    try:
        return [problem.message for problem in known_problems(load_recipe(str(path)))]
    except RecipeErrors as error:
        return [problem.message for problem in error.problems]


def stage(models: list[Path], **params: Any) -> dict[str, Any]:
    return {"uses": "merge", "in": {"models": [str(one) for one in models]}, "with": {"merger": "linear", **params}}


def test_models_that_fit_are_merged(tmp_path: Path) -> None:
    models = [folder_of(tmp_path, name, seed) for name, seed in (("a", 1), ("b", 2))]
    assert told(tmp_path, {"merge": stage(models), "adopt": {"uses": "adopt", "in": {"model": "merge.model"}}}) == []


def test_folders_that_are_here_are_compared(tmp_path: Path) -> None:
    models = [folder_of(tmp_path, "a", 1), folder_of(tmp_path, "b", 2, vocabulary={"a": 0, "b": 1, "d": 2})]
    (why,) = told(tmp_path, {"merge": stage(models)})
    assert why == ("stage 'merge': the tokenizers of models[0] and models[1] differ: \"c\" is 2 and not there")
    assert told(tmp_path, {"merge": stage(models, tokenizers="first")}) == []
    assert "has no model.safetensors" in told(tmp_path, {"merge": stage([models[0], _empty(tmp_path)])})[0]


def _empty(tmp: Path) -> Path:
    folder = folder_of(tmp, "empty", 1)
    (folder / "model.safetensors").unlink()
    return folder


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"merger": "ties"}, "merger 'ties' asks the input 'base', which is not connected"),
        ({"merger": {"name": "weight_edit", "behaviour": {"quality": "rude"}}}, "asks the input 'probe'"),
        ({"merger": {"name": "linear", "weights": [1]}}, "weights has 1 numbers, and input 'models' has 2 models"),
        ({"merger": {"name": "linear", "wieghts": [1]}}, "unknown key 'wieghts'; did you mean 'weights'?"),
        ({"merger": "slerp", "sweep": {"t": [2]}}, "t: Input should be less than or equal to 1"),
    ],
)
def test_settings_that_do_not_fit_are_told(tmp_path: Path, params: dict[str, Any], message: str) -> None:
    models = [folder_of(tmp_path, name, seed) for name, seed in (("a", 1), ("b", 2))]
    found = told(tmp_path, {"merge": stage(models, **params)})
    assert any(message in why for why in found) and not any("\n" in why for why in found)


def test_the_number_of_models_made_by_the_run_is_known(tmp_path: Path) -> None:
    base = folder_of(tmp_path, "base", 0)
    made = {name: {"uses": "adopt", "in": {"model": str(base)}} for name in ("one", "two", "three")}
    merge = {"uses": "merge", "in": {"models": [f"{name}.model" for name in made]}, "with": {"merger": "slerp"}}
    assert told(tmp_path, {**made, "merge": merge}) == ["stage 'merge': it merges 2 models, and input 'models' has 3"]


def test_a_sweep_has_checkpoints_and_no_model(tmp_path: Path) -> None:
    models = [folder_of(tmp_path, name, seed) for name, seed in (("a", 1), ("b", 2))]
    swept = stage(models, merger="slerp", sweep={"t": [0.5]})
    (why,) = told(tmp_path, {"merge": swept, "adopt": {"uses": "adopt", "in": {"model": "merge.model"}}})
    assert why == "unknown output of stage 'merge': 'model' (known: checkpoints, report)"
