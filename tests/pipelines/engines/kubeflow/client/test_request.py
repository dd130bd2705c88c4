"""What travels: a recipe inside its pipeline, and parameters from a command line to the first task and back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.contract.errors import InputError
from components.runtime.store import open_store
from pipelines.engines.kubeflow.begin import begin, requested
from pipelines.engines.kubeflow.client.api import check_arguments
from pipelines.engines.kubeflow.client.submit import request
from pipelines.engines.kubeflow.compiler.bundle import Bundle
from pipelines.engines.kubeflow.compiler.form import arguments_of, configuration, form_of
from pipelines.engines.kubeflow.names import STORE, run_key
from pipelines.recipe.recipe import load_recipe
from tests.pipelines.engines.kubeflow.examples import FOLDER, POOLS, compiled

PARAMETERS = FOLDER / "recipes" / "parameters.yaml"


@pytest.fixture(autouse=True)
def where(toy_catalog: None, cluster: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The toy components and pools of every kind."""
    (tmp_path / "pools.yaml").write_text(POOLS)
    monkeypatch.setenv("POSTTRAIN_POOLS", str(tmp_path / "pools.yaml"))


@given(st.text(), st.text())
def test_nothing_in_a_bundle_looks_like_a_placeholder(text: str, name: str) -> None:
    bundle = Bundle(name, "a.yaml", {"a.yaml": text + "{{$.inputs}} {{workflow.name}} $(HOME) $$"}, [text], {})
    dumped = bundle.dump()
    assert "{{" not in dumped and "$" not in dumped
    assert Bundle.parse(dumped) == bundle


@pytest.mark.parametrize(
    ("files", "recipe"),
    [
        (
            {"own.yaml": "extends: sub/parent.yaml", "sub/parent.yaml": "extends: grand.yaml", "sub/grand.yaml": ""},
            "own",
        ),
        ({"own.yaml": "extends: named", "far/named.yaml": ""}, "own"),
        ({"methods/own.yaml": "extends: named", "named.yaml": ""}, "methods/own"),
    ],
    ids=["by-path", "by-name", "method"],
)
def test_parents_are_found_where_the_recipe_is_unpacked(
    files: dict[str, str], recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    monkeypatch.setenv("POSTTRAIN_RECIPES", str(source))
    for path, line in files.items():
        (source / path).parent.mkdir(parents=True, exist_ok=True)
        (source / path).write_text(f"name: own\n{line}\nstages: {{s{len(path)}: {{uses: curate}}}}\n")
    original = load_recipe(recipe)
    bundle = Bundle.parse(Bundle.of(original).dump())
    target.mkdir()
    monkeypatch.setenv("POSTTRAIN_RECIPES", "")
    bundle.unpack(target)
    found = bundle.load(target)
    assert [stage.name for stage in found.stages] == [stage.name for stage in original.stages]
    assert len(found.stages) == len(files)
    assert found.digest == original.digest


VALUES: dict[str, tuple[list[str], dict[str, Any]]] = {
    "nothing": ([], {}),
    "typed": (["steps=30", "rate=0.25", "quick=false"], {"steps": 30, "rate": 0.25, "quick": False}),
    "renamed": (["class=else", "two-words=[3]"], {"class_": "else", "two_words": [3]}),
    "seed": (["seed=9"], {"seed": 9}),
    "other": (["stages.tuned.with.shuffle=false"], {"posttrain_set": ["stages.tuned.with.shuffle=false"]}),
    "another-type": (["rate=2"], {"posttrain_set": ["rate=2"]}),
    "null": (["nothing=now"], {"nothing": "now"}),
    "table": (["table={a: 2}"], {"table": {"a": 2}}),
}


@pytest.mark.parametrize("case", VALUES)
def test_overrides_reach_the_first_task_as_arguments_and_mean_the_same(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    overrides, wanted = VALUES[case]
    asked = load_recipe(str(PARAMETERS), overrides)
    drawn, arguments = request(asked, open_store(str(tmp_path / "store")))
    assert arguments == {**wanted, STORE: str(tmp_path / "store")}
    text = compiled(PARAMETERS)
    check_arguments(text, arguments)
    bundle = Bundle.of(drawn)
    (tmp_path / "unpacked").mkdir()
    monkeypatch.setenv("POSTTRAIN_RECIPES", "")
    bundle.unpack(tmp_path / "unpacked")
    form = form_of(drawn, "s3://bucket/store")
    values = {name: default for name, (_, default) in form.items()} | json.loads(json.dumps(arguments))
    found = requested(bundle, values, tmp_path / "unpacked")
    assert (found.params, found.seed) == (asked.params, asked.seed)
    assert [stage.params for stage in found.stages] == [stage.params for stage in asked.stages]


@given(st.integers(1, 100), st.floats(allow_nan=False, allow_infinity=False), st.booleans(), st.integers(0, 2**32 - 1))
def test_values_come_back_from_arguments(steps: int, rate: float, quick: bool, seed: int) -> None:
    recipe = load_recipe(str(PARAMETERS))
    conf = {"steps": steps, "rate": rate, "quick": quick, "seed": seed}
    arguments = arguments_of(recipe, conf, form_of(recipe, "s3://bucket/store"))
    as_numbers = {key: float(value) if type(value) is int else value for key, value in arguments.items()}  # of JSON
    assert configuration(recipe, as_numbers) == conf


def test_overrides_that_change_the_graph_get_a_pipeline_of_their_own(tmp_path: Path) -> None:
    path = str(Path(__file__).parents[3] / "grammar" / "rounds.yaml")
    asked = load_recipe(path, ["rounds=4"])
    drawn, arguments = request(asked, open_store(str(tmp_path / "store")))
    assert len(drawn.stages) == len(asked.stages) > len(load_recipe(path).stages)
    assert set(arguments) == {STORE}


def test_what_the_first_task_refuses_is_left_where_the_follower_looks(tmp_path: Path) -> None:
    bundle = Bundle.of(load_recipe(str(PARAMETERS)))
    values = {"steps": 1000, STORE: str(tmp_path / "store")}
    with pytest.raises(InputError, match=r"params\.steps: got 1000, expected at most 100"):
        begin(bundle, values, "k", tmp_path)
    refused = open_store(str(tmp_path / "store")).get(run_key("k"))["refused"]
    assert "expected at most 100" in refused and str(tmp_path) not in refused


def test_a_first_task_that_is_tried_again_has_the_same_run(tmp_path: Path) -> None:
    bundle = Bundle.of(load_recipe(str(PARAMETERS)))
    values = {STORE: str(tmp_path / "store")}
    assert begin(bundle, values, "k", tmp_path) == begin(bundle, values, "k", tmp_path)
    assert begin(bundle, values, "another", tmp_path) != begin(bundle, values, "k", tmp_path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"posttrain_store": "s3://b/s", "stepz": 1}, "unknown parameter 'stepz'; did you mean 'steps'"),
        ({}, "parameter 'posttrain_store' has no default"),
    ],
)
def test_arguments_that_a_pipeline_does_not_have_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_arguments(compiled(PARAMETERS), arguments)


def test_operators_files_travel_and_what_set_names_gets_a_pipeline_of_its_own(
    toy_catalog: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared, folder = tmp_path / "shared", tmp_path / "recipes"
    shared.mkdir()
    folder.mkdir()
    (shared / "rows.py").write_text("def rows(request): ...\n")
    (folder / "own.yaml").write_text(
        "name: own\nparams: {source: ../shared/rows.py:rows}\n"
        'stages: {data: {uses: curate, with: {sources: ["${params.source}"]}}}\n'
    )
    recipe = load_recipe(str(folder / "own.yaml"))
    bundle = Bundle.parse(Bundle.of(recipe).dump())
    target = tmp_path / "unpacked" / "deep"
    target.mkdir(parents=True)
    monkeypatch.setenv("POSTTRAIN_RECIPES", "")
    bundle.unpack(target)
    (shared / "rows.py").unlink()
    found = bundle.load(target)
    assert found.stages[0].params == recipe.stages[0].params and found.digest == recipe.digest
    assert not list(target.rglob("*.py")), "no path of the recipe is written to"
    with pytest.raises(InputError, match=r"\./other\.py: this pipeline does not carry the file; compile the recipe"):
        bundle.load(target, ["source=./other.py:rows"])
    (shared / "rows.py").write_text("def rows(request): ...\n")
    monkeypatch.chdir(tmp_path)
    Path("other.py").write_text("def rows(request): return 1\n")
    asked = load_recipe(str(folder / "own.yaml"), ["source=./other.py:rows"])
    drawn, arguments = request(asked, open_store(str(tmp_path / "store")))
    assert set(arguments) == {STORE}
    assert "./other.py" in Bundle.of(drawn).code


def test_two_files_of_one_name_are_refused(toy_catalog: None, tmp_path: Path) -> None:
    for name in ("a", "a/b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "rows.py").write_text(f"def rows(request): return {name!r}\n")
    stages = "stages: {{{}: {{uses: curate, with: {{sources: [./rows.py:rows]}}}}}}\n"
    (tmp_path / "a" / "b" / "parent.yaml").write_text(f"name: parent\n{stages.format('one')}")
    (tmp_path / "a" / "own.yaml").write_text(f"name: own\nextends: b/parent.yaml\n{stages.format('two')}")
    with pytest.raises(InputError, match=r"\./rows\.py means one file in the recipe and another in a parent"):
        Bundle.of(load_recipe(str(tmp_path / "a" / "own.yaml")))
