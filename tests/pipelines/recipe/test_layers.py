"""extends and --set: deep merge, removal, and refusals with near misses."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.language.problems import RecipeErrors
from pipelines.recipe.recipe import load_recipe
from tests.pipelines.writing import load, messages, sources, stages, with_stages, write

pytestmark = pytest.mark.usefixtures("toy_catalog")

PARENT = with_stages(
    """
    sft:
      uses: sft
      in: {model: base.model, dataset: data.dataset}
      with: {steps: 5, notes: {a: x, b: y}, optimizer: {name: muon, peak_learning_rate: 0.1}}
    ev: {uses: evaluate, in: {model: sft.model, dataset: data.heldout}}
    """,
    "seed: 1\nsummary: parent\nparams: {steps: {default: 3, max: 9, title: Steps}, other: 1}",
)


def test_a_child_is_merged_over_its_parent(tmp_path: Path) -> None:
    write(tmp_path, PARENT, "parent.yaml")
    child = """
    name: child
    extends: parent.yaml
    seed: 2
    params: {steps: 4, other: null}
    stages:
      ev: null
      sft: {with: {notes: {a: z, b: null}, steps: "${params.steps}", optimizer: {name: adamw}}}
      more: {uses: pretrain, with: {layers: 3}}
    """
    recipe = load_recipe(str(write(tmp_path, child, "child.yaml")))

    assert (recipe.name, recipe.summary, recipe.seed) == ("child", "parent", 2)
    assert recipe.params == {"steps": 4}
    assert recipe.parameters[0].words.title == "Steps"
    assert [stage.name for stage in recipe.stages] == ["base", "data", "sft", "more"]
    # mappings merge, null removes, and another `name` is another operator: nothing of the old one stays
    assert stages(recipe)["sft"].params == {"steps": 4, "notes": {"a": "z"}, "optimizer": {"name": "adamw"}}


def test_a_mistake_is_shown_in_the_file_that_made_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, PARENT.replace("steps: 5", "steps: 0"), "parent.yaml")
    write(tmp_path, "name: child\nextends: parent.yaml\nstages: {ev: {with: {sampels: 3}}}\n", "child.yaml")
    with pytest.raises(RecipeErrors) as caught:
        load_recipe("child.yaml")
    assert [str(problem.mark) for problem in caught.value.problems] == ["child.yaml:3:22", "parent.yaml:11:19"]


def test_parents_are_found_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "mine" / "deep"
    folder.mkdir(parents=True)
    write(folder, PARENT, "house-style.yaml")
    monkeypatch.setenv("POSTTRAIN_RECIPES", str(tmp_path / "mine"))
    assert load_recipe("house-style").summary == "parent"
    assert load(tmp_path, "name: child\nextends: house-style\n").summary == "parent"


def test_extends_in_a_circle_names_it(tmp_path: Path) -> None:
    write(tmp_path, "name: a\nextends: b.yaml\n", "a.yaml")
    write(tmp_path, "name: b\nextends: ./c.yaml\n", "b.yaml")
    write(tmp_path, "name: c\nextends: a.yaml\n", "c.yaml")
    with pytest.raises(RecipeErrors, match=r"c\.yaml:2:10: extends goes in a circle: a -> b -> c -> a"):
        load_recipe(str(tmp_path / "a.yaml"))


def test_overrides(tmp_path: Path) -> None:
    recipe = load(
        tmp_path,
        PARENT,
        "steps=8",
        "seed=5",
        "stages.sft.with.steps=${params.steps}",
        "stages.sft.with.optimizer.peak_learning_rate=1e-2",
        "stages.data.with.sources=[squares]",
        "stages.data.with.sources.0={name: counting, count: 2}",
        "defaults.retries=3",
        "stages.ev.pool=l4x1",
        "matrix.seed=[1, 2]",
    )
    found = stages(recipe)
    sft = found["sft-seed-2"]
    assert (recipe.seed, sft.seed, sft.retry.retries) == (5, 2, 3)
    assert sft.params["steps"] == 8
    assert sft.params["optimizer"] == {"name": "muon", "peak_learning_rate": 0.01}
    assert found["data-seed-1"].params["sources"] == [{"name": "counting", "count": 2}]
    assert found["ev-seed-1"].pool == "l4x1"
    assert recipe.overrides[0] == "steps=8"


def test_a_mapping_that_is_set_merges_and_null_makes_room_for_another(tmp_path: Path) -> None:
    kept = load(tmp_path, PARENT, "stages.sft.with.notes={b: w, c: v}", "stages.sft.in={dataset: data.heldout}")
    assert stages(kept)["sft"].params["notes"] == {"a": "x", "b": "w", "c": "v"}
    assert sources(stages(kept)["sft"]) == {"model": ["base.model"], "dataset": ["data.heldout"]}

    whole = load(tmp_path, PARENT, "stages.sft.with.notes=null", "stages.sft.with.notes={c: v}")
    assert stages(whole)["sft"].params["notes"] == {"c": "v"}
    removed = load(tmp_path, PARENT, "stages.sft.with.optimizer=null", "stages.ev=null")
    assert "optimizer" not in stages(removed)["sft"].params and "ev" not in stages(removed)
    another = load(tmp_path, PARENT, "stages.sft.with.optimizer={name: adamw}")
    assert stages(another)["sft"].params["optimizer"] == {"name": "adamw"}  # another operator, not this one's settings


def test_overrides_that_lead_nowhere(tmp_path: Path) -> None:
    found = messages(
        tmp_path,
        PARENT,
        "stpes=8",
        "params.stepz=8",
        "stages.stf.with.steps=8",
        "stages.sft.with.stpes=8",
        "stages.sft.wiht.steps=8",
        "stages.sft.with.steps.deep=8",
        "stages.sft.with.steps=many",
        "name=other",
        "novalue",
        "steps={",
        "seed=.nan",
    )
    assert found == [
        "--set name=other: 'name' cannot be set from outside; write a recipe that extends this one",
        "--set novalue: expected key=value, such as rl_steps=10 or stages.rl.with.steps=10",
        "--set params.stepz=8: unknown parameter 'stepz'; did you mean 'steps'? (known: steps, other)",
        "--set seed=.nan: .nan is not a finite number",
        "--set stages.sft.wiht.steps=8: unknown key in stage 'sft': 'wiht'; did you mean 'with'? (known: uses, in, "
        "with, matrix, pool, backend, seed, retries, backoff, timeout, when, gate, approve, expect, after, "
        "integrity, register, summary, on_alarm, on_failure, alarms, keep_partial)",
        "--set stages.sft.with.steps.deep=8: stages.sft.with.steps is 5 and has no part 'deep'",
        "--set stages.stf.with.steps=8: unknown stage 'stf'; did you mean 'sft'? (known: base, data, sft, ev)",
        "--set steps={: not valid YAML: a value is missing, or a bracket is not closed",
        "--set stpes=8: unknown parameter 'stpes'; did you mean 'steps'? (known: steps, other)",
    ]
    assert messages(tmp_path, PARENT, "stages.sft.with.stpes=8", "stages.sft.with.steps=many") == [
        "--set stages.sft.with.steps=many: stage 'sft', with.steps: got 'many', expected a whole number",
        "--set stages.sft.with.stpes=8: stage 'sft', with: unknown key 'stpes'; did you mean 'steps'? (known: steps, "
        "method, optimizer, learning_rate, notes, warmup_steps, shuffle)",
    ]
