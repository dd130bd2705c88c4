"""Recipes given as folders, and names of models that lack their scheme."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.contract.errors import InputError
from pipelines.language.find import find_parent, find_recipe
from pipelines.language.uris import check_uri


def test_a_folder_with_a_recipe_means_that_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "recipe.yaml").write_text("name: mine\n")
    monkeypatch.chdir(tmp_path)
    for given in ("mine", "mine/", "./mine", str(tmp_path / "mine")):
        assert find_recipe(given).absolute() == tmp_path / "mine" / "recipe.yaml"
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError):
        find_recipe("empty")
    with pytest.raises(InputError, match="unknown recipe"):  # a recipe extends names, not folders of the caller
        find_parent("mine", tmp_path / "child.yaml")


def test_a_hub_name_without_its_scheme_gets_it_proposed(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"did you mean '?hf:Qwen/Qwen2\.5-0\.5B'?\?"):
        check_uri("Qwen/Qwen2.5-0.5B", tmp_path, here=True)
