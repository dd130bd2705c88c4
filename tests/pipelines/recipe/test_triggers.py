"""What starts a recipe by itself, and the models that it then reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pipelines.writing import load, messages, sources, stages, with_stages

pytestmark = pytest.mark.usefixtures("toy_catalog")
STAGE = 'train: {uses: rl, in: {model: "models:/quickstart@champion", dataset: data.dataset}}'


def test_a_recipe_names_the_models_that_start_it(tmp_path: Path) -> None:
    recipe = load(tmp_path, with_stages(STAGE, "triggered_by: [quickstart@champion, other@candidate]"))
    assert recipe.triggered_by == ("quickstart@champion", "other@candidate")
    assert sources(stages(recipe)["train"])["model"] == ["models:/quickstart@champion"]
    assert load(tmp_path, with_stages(STAGE, "triggered_by: quickstart@champion")).triggered_by == (
        "quickstart@champion",
    )
    assert load(tmp_path, with_stages(STAGE)).triggered_by == ()


@pytest.mark.parametrize("trigger", ["quickstart", "'@champion'", "quickstart@", "a b@champion", "7", "{a: b}"])
def test_what_starts_nothing(tmp_path: Path, trigger: str) -> None:
    [message] = messages(tmp_path, with_stages(STAGE, f"triggered_by: [{trigger}]"))
    assert "triggered_by: got" in message
    assert "expected the alias of a registered model, such as quickstart@champion" in message


@pytest.mark.parametrize("name", ["quickstart@champion", "/quickstart", "/quickstart@1", "/a b@c"])
def test_what_names_no_registered_model(tmp_path: Path, name: str) -> None:
    text = with_stages(f'train: {{uses: rl, in: {{model: "models:{name}", dataset: data.dataset}}}}')
    [message] = messages(tmp_path, text)
    assert "expected models:/name@alias or models:/name/version" in message
