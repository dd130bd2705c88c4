"""Systems: what a recipe says of the published method that it is, and whether its constants are there."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.recipe.recipe import load_recipe
from pipelines.recipe.system import names_of
from tests.pipelines.writing import load, messages, stages, write

pytestmark = pytest.mark.usefixtures("toy_catalog")

RECIPE = """
matrix: {seed: [4, 9], arm: {method: {steps: 5}, baseline: {steps: 6}}}
params: {layers: 2}
stages:
  base: {uses: pretrain, matrix: {arm: none}, with: {layers: "${params.layers}"}}
  data: {uses: curate, matrix: none, with: {sources: [{name: counting, count: 3}, squares]}}
  rl: {uses: rl, in: {model: base.model, dataset: data.dataset}, with: "${matrix.arm}"}
hallmark:
  catalogue: 7
  claim: Gains more
  outcome: {name: gain, value: rl.pass_rate, direction: higher, floor: 0.1, floor_from: a guess}
system:
  catalogue: 7
  paper: "Doe 2025, Steps, arXiv:2501.00001"
  summary: "Five steps of ${params.layers}"
  sources:
    matrix.arm.method: section 2
    params.layers: section 3
    stages.data.with.sources.counting.count: section 4
    stages.data.with.sources.squares: section 4
    stages.data.with.sources.0.count: the same by its position
  missing: [images]
"""


def test_what_a_recipe_says_of_its_method(tmp_path: Path) -> None:
    system = load(tmp_path, RECIPE).system
    assert system is not None
    assert (system.catalogue, system.missing, system.summary) == (7, ["images"], "Five steps of ${params.layers}")
    assert system.source_of("matrix.arm.method.steps") == "section 2", "of the mapping around it"
    assert system.source_of("matrix.arm.baseline.steps") is None
    assert system.source_of("stages.data.with.sources.counting.count") == "section 4"


def test_a_recipe_that_extends_a_system_is_not_that_system(tmp_path: Path) -> None:
    write(tmp_path, RECIPE, "parent.yaml")
    child = load(tmp_path, "extends: ./parent.yaml\nparams: {layers: 3}\n")
    assert child.system is None and child.hallmark is not None
    assert stages(child)["base-seed-4"].params == {"layers": 3}


def test_constants_of_a_parent_can_be_cited(tmp_path: Path) -> None:
    head, _, system = RECIPE.partition("system:")
    write(tmp_path, head, "parent.yaml")
    assert load(tmp_path, f"extends: ./parent.yaml\nsystem:{system}").system is not None
    without = (
        f"extends: ./parent.yaml\nparams: {{layers: null}}\nstages: {{base: {{with: {{layers: 1}}}}}}\nsystem:{system}"
    )
    assert any("'params.layers': params has no 'layers'" in text for text in messages(tmp_path, without))


def test_what_is_set_from_outside_leaves_the_system_as_it_is(tmp_path: Path) -> None:
    path = write(tmp_path, RECIPE)
    small = load_recipe(str(path), ["matrix.arm.method=null", "hallmark=null", "stages.data.with.sources=null"])
    assert small.hallmark is None and small.system == load_recipe(str(path)).system
    for override in ("system=null", "system.paper=mine"):
        (text,) = messages(tmp_path, RECIPE, override)
        assert "'system' cannot be set from outside" in text


def test_every_wrong_source_is_named(tmp_path: Path) -> None:
    wrong = RECIPE.replace("sources.0.count", "sources.7.count").replace(
        "params.layers: section", "params.lairs: section"
    )
    assert [text.partition(" ")[2] for text in messages(tmp_path, wrong)] == [
        "system.sources: 'params.lairs': params has no 'lairs'; did you mean 'layers'? (known: layers)",
        "system.sources: 'stages.data.with.sources.7.count': stages.data.with.sources has no '7' "
        "(known: 0, 1, counting, squares)",
    ]


def test_entries_without_a_name_of_their_own_go_by_position() -> None:
    assert names_of(["a", "a", "1", 5, {"domain": "b"}, {"x": 1}]) == {
        "a": "a", "1": "a", "2": "1", "3": 5, "b": {"domain": "b"}, "5": {"x": 1},
    }  # fmt: skip
