"""A recipe's `code`: what it may name, in which environment, and where each mistake is told."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

import pytest

from components.contract.operator_packages import contents
from pipelines.language.problems import RecipeErrors
from pipelines.recipe.recipe import Recipe, load_recipe

SOURCE = """\
from components.tasks.source import SourceConfig, SourceRequest, SourceRow, SourceRows


def rows(request: SourceRequest, *, config: SourceConfig) -> SourceRows:
    return SourceRows(iter([SourceRow(where="1", prompt="p", answer="a")]), {"name": "own"})
"""
RECIPE = """\
name: packaged
code: {code}
stages:
  rows: {{uses: curate, with: {{sources: [{{domain: d, source: "{operator}"}}]}}}}
"""


def package(folder: Path, name: str, **modules: str) -> Path:
    """Write a package with these modules."""
    place = folder / name
    place.mkdir(parents=True)
    for module, text in {"__init__": "", "sources": SOURCE, **modules}.items():
        (place / f"{module}.py").write_text(text)
    return place


def recipe(folder: Path, code: str, operator: str = "own_rows.sources:rows", name: str = "mine.yaml") -> Recipe:
    (folder / name).write_text(RECIPE.format(code=code, operator=operator))
    return load_recipe(str(folder / name))


def refusal(folder: Path, code: str) -> str:
    with pytest.raises(RecipeErrors) as caught:
        recipe(folder, code)
    (line,) = str(caught.value).splitlines()
    assert "mine.yaml:2:" in line
    return line


def test_a_stage_gets_its_package_and_reading_runs_none_of_it(tmp_path: Path) -> None:
    package(tmp_path, "own_rows", marked="raise RuntimeError('run')\n")
    package(tmp_path, "unused_rows")
    (stage,) = recipe(tmp_path, "[./own_rows, ./unused_rows]").stages
    (code,) = stage.code
    assert [tree.name for tree in code.trees] == ["own_rows"]  # type: ignore[union-attr]
    assert stage.params["sources"][0]["source"] == f"own_rows.sources:rows@{code.digest}"
    assert "own_rows" not in sys.modules and str(tmp_path) not in sys.path


def test_the_digest_is_in_the_recipes_and_a_parents_code_is_beside_the_parent(tmp_path: Path) -> None:
    place = package(tmp_path / "above", "own_rows")
    first = recipe(tmp_path / "above", "[./own_rows]", name="parent.yaml")
    (tmp_path / "child.yaml").write_text("name: child\nextends: above/parent.yaml\n")
    child = load_recipe(str(tmp_path / "child.yaml"))
    assert [tree.digest for tree in child.trees.values()] == [tree.digest for tree in first.trees.values()]
    (place / "sources.py").write_text(SOURCE + "# edited\n")
    assert load_recipe(str(tmp_path / "above" / "parent.yaml")).digest != first.digest


def test_an_installed_package_travels_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = tmp_path / "site"
    package(site, "own_rows")
    told = site / "own_rows_dist-1.0.dist-info"
    told.mkdir()
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: own-rows-dist\nVersion: 1.0\n")
    (told / "RECORD").write_text("own_rows/__init__.py,,\nown_rows/sources.py,,\n../../bin/own,,\n")
    monkeypatch.syspath_prepend(str(site))
    real = sysconfig.get_path
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(site) if name == "purelib" else real(name))
    found = recipe(tmp_path, "[own-rows-dist]")
    (tree,) = found.trees.values()
    assert tree.distribution == "own-rows-dist" and sorted(contents.of(tree.digest))[0] == "own_rows/__init__.py"
    package(tmp_path, "own_rows")
    assert "'own_rows' is installed here, too" in refusal(tmp_path, "[./own_rows]")


def test_what_cannot_be_code_is_told_at_its_entry(tmp_path: Path) -> None:
    package(tmp_path, "own_rows")
    package(tmp_path, "torch")
    package(tmp_path, "components")
    said = refusal(tmp_path, "[./own_rows, ./torch]")
    assert "'torch' is installed here, too" in said or "'torch' has the name of a library of the stages" in said
    assert "posttrain's own" in refusal(tmp_path, "[./own_rows, ./components]")
    assert "no package of this name is installed here; a folder is named as ./missing" in refusal(
        tmp_path, "[./own_rows, missing]"
    )
    assert "expected a list of package folders" in refusal(tmp_path, "./own_rows")
    assert "expected a list of package folders" in refusal(tmp_path, "[./own_rows, 3]")
    twice = package(tmp_path / "again", "own_rows", sources=SOURCE + "X = 1\n")
    assert "both have a module 'own_rows'" in refusal(tmp_path, f"[./own_rows, {twice}]")


def test_paths_that_name_nothing_are_told_with_their_lines(tmp_path: Path) -> None:
    recipe = tmp_path / "r.yaml"
    recipe.write_text('name: r\ncode: ["#sha256=abc", "~no-such-user/x", "~no-such-user/x.whl"]\nstages: {}\n')
    with pytest.raises(RecipeErrors) as caught:
        load_recipe(str(recipe))
    text = str(caught.value)
    assert "there is no path before #sha256=" in text and text.count("there is no such user's folder") == 2
