"""Tables of this machine: beside the recipe whoever runs it and from where, and looked for before anything runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipelines.cli import main
from pipelines.language.problems import RecipeErrors
from pipelines.recipe.recipe import Recipe, load_recipe

RECIPE = """name: own
params: {{table: {default}}}
stages:
  rows:
    uses: curate
    with: {{sources: [{{domain: a, source: {{name: jsonl, path: "{path}"}}}}]}}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a table and a folder elsewhere with another; what runs is in the second."""
    for name in ("recipe", "elsewhere"):
        (tmp_path / name).mkdir()
        row = {"prompt": f"In which folder is {name}?", "answer": name}
        (tmp_path / name / "rows.jsonl").write_text(json.dumps(row) + "\n")
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.setenv("POSTTRAIN_LINEAGE", "later")
    return tmp_path / "recipe"


def write(folder: Path, path: str, default: str = "rows.jsonl") -> str:
    (folder / "own.yaml").write_text(RECIPE.format(path=path, default=default))
    return str(folder / "own.yaml")


def path_of(recipe: Recipe) -> Any:
    (stage,) = recipe.stages
    written = stage.params["sources"][0]["source"]["path"]
    assert stage.config.sources[0].source.settings["path"] == written  # type: ignore[attr-defined]
    return written


@pytest.mark.parametrize("path", ["rows.jsonl", "./rows.jsonl", "${params.table}", "*.jsonl"])
def test_a_relative_path_lies_beside_the_file_that_it_is_written_in(folder: Path, path: str) -> None:
    expected = str(folder / Path(path if "params" not in path else "rows.jsonl"))
    assert path_of(load_recipe(write(folder, path))) == expected


def test_what_is_set_from_outside_lies_where_it_is_typed(folder: Path) -> None:
    recipe = load_recipe(write(folder, "${params.table}"), ["table=rows.jsonl"])
    assert path_of(recipe) == str(folder.parent / "elsewhere" / "rows.jsonl")


@pytest.mark.parametrize("path", ["/data/rows.jsonl", "s3://bucket/rows.jsonl", "~/rows.jsonl"])
def test_other_paths_stay_as_they_are(folder: Path, path: str) -> None:
    assert path_of(load_recipe(write(folder, path))) == path


def test_a_recipe_of_a_recipe_keeps_the_table_of_the_first(folder: Path, tmp_path: Path) -> None:
    write(folder, "rows.jsonl")
    (tmp_path / "child.yaml").write_text("name: child\nextends: ./recipe/own.yaml\n")
    assert path_of(load_recipe(str(tmp_path / "child.yaml"))) == str(folder / "rows.jsonl")


@pytest.mark.parametrize("command", ["run", "plan"])
def test_a_table_that_is_missing_is_named_with_its_stage_before_anything_runs(
    folder: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    store = folder / "store"
    assert main([command, write(folder, "roes.jsonl"), "--store", str(store)]) == 2
    said = capsys.readouterr().err
    assert f"own.yaml:6:42: stage 'rows': {folder}/roes.jsonl: no such file" in said
    assert not (store / "ledger").exists()


def test_validate_remarks_on_it(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", write(folder, "roes.jsonl")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("but its data is not on this machine")
    assert lines[1].startswith("note: rows: ") and f"own.yaml:6:42: {folder}/roes.jsonl: no such file" in lines[1]


def test_the_table_beside_the_recipe_is_what_is_read(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = folder / "store"
    assert main(["run", write(folder, "rows.jsonl"), "--store", str(store), "--json"]) == 0
    (stage,) = json.loads(capsys.readouterr().out)["stages"]
    dataset = Path(stage["outputs"]["dataset"]["uri"])
    assert "In which folder is recipe?" in "".join(path.read_text() for path in dataset.rglob("*.jsonl"))


def test_inputs_that_are_set_from_outside_lie_where_they_are_typed(folder: Path) -> None:
    text = (
        'name: tune\nparams: {base: hf:a/b}\nstages:\n  sft: {uses: sft, in: {model: "${params.base}", dataset: ./r}}\n'
    )
    (folder / "tune.yaml").write_text(text)
    (folder / "r").mkdir()
    (folder.parent / "elsewhere" / "model").mkdir()
    (stage,) = load_recipe(str(folder / "tune.yaml"), ["base=./model"]).stages
    found = {port: [reference.uri for reference in references] for port, references in stage.inputs.items()}  # type: ignore[union-attr]
    assert found == {"model": [str(folder.parent / "elsewhere" / "model")], "dataset": [str(folder / "r")]}
    with pytest.raises(RecipeErrors, match=rf"no such file or folder in {folder.parent}/elsewhere"):
        load_recipe(str(folder / "tune.yaml"), ["base=./none"])
