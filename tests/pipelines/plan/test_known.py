"""A file that is wrong is named once, as seen from where the command runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.plan.known import known_problems
from pipelines.recipe.recipe import load_recipe

RECIPE = """\
name: naive
stages:
  rows:
    uses: curate
    with: {kind: prompts, sources: [{domain: sums, source: {name: jsonl, path: "%s"}}]}
"""


@pytest.mark.parametrize("here", [".", "fm"])
@pytest.mark.parametrize(
    ("name", "text", "message"),
    [("rows.txt", "{}", "{}: unknown format; readable are "), ("rows.jsonl", "[1", "{}:1: ")],
)
def test_a_path_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, here: str, name: str, text: str, message: str
) -> None:
    folder = tmp_path / "fm"
    folder.mkdir()
    (folder / name).write_text(text)
    (folder / "naive.yaml").write_text(RECIPE % name)
    monkeypatch.chdir(tmp_path / here)
    (problem,) = known_problems(load_recipe(str(folder / "naive.yaml")))
    path = (folder / name).relative_to(tmp_path / here)
    assert problem.message.startswith(message.format(path)), problem.message
