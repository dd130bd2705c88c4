"""The word `without`: sources that are left out of every stage of a recipe."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipelines.language.problems import RecipeErrors
from pipelines.recipe.recipe import load_recipe
from pipelines.recipe.sources import named_sources

RECIPE = """
name: several
params: {set: gsm8k}
stages:
  mixed:
    uses: curate
    with:
      sources:
        - {domain: maths, source: {name: published, set: "${params.set}", path: rows.jsonl, revision: abc}}
        - {domain: a, source: {name: jsonl, path: one/rows.jsonl}}
        - {domain: b, source: {name: jsonl, path: two/rows.jsonl}}
        - {domain: sums, count: 4, source: {name: guided, source: {name: reasoning_gym, task: chain_sum}}}
        - {domain: own, source: {name: "./mine.py:rows"}}
        - {source: artifact}
  arms:
    uses: curate
    matrix: {arm: {x: {task: chain_sum}, y: {task: spell_backward}}}
    with:
      sources:
        - {domain: plain, count: 3, source: {name: rules, accepts: [{rules: [reverse]}]}}
        - {domain: drawn, count: 3, source: {name: reasoning_gym, task: "${matrix.arm.task}"}}
"""
MINE = """
from components.tasks.source import SourceRequest, SourceRow, SourceRows

def rows(request: SourceRequest) -> SourceRows:
    return SourceRows(iter([SourceRow("here:1", prompt="?", answer="7")]), {"source": "mine"})
"""


@pytest.fixture
def recipe(tmp_path: Path) -> str:
    for name in ("rows.jsonl", "one/rows.jsonl", "two/rows.jsonl"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text('{"prompt": "1 + 1 =", "answer": "2"}\n')
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "several.yaml").write_text(RECIPE)
    return str(tmp_path / "several.yaml")


def _left(recipe: str, *names: str) -> dict[str, list[str]]:
    found = load_recipe(recipe, [f"without=[{', '.join(names)}]"] if names else [])
    assert found.without == tuple(name.removeprefix("source:") for name in names)
    return {stage.name: [source.label for source in named_sources(stage.params)] for stage in found.stages}


def _refused(recipe: str, *overrides: str) -> list[str]:
    with pytest.raises(RecipeErrors) as error:
        load_recipe(recipe, overrides)
    return str(error.value).splitlines()


ALL = {
    "mixed": ["gsm8k", "rows.jsonl", "rows.jsonl", "chain_sum", "mine.py:rows"],
    "arms-arm-x": ["rules", "chain_sum"],
    "arms-arm-y": ["rules", "spell_backward"],
}


@pytest.mark.parametrize(
    ("names", "changed"),
    [
        ([], {}),
        (["gsm8k"], {"mixed": ALL["mixed"][1:]}),
        (["openai/gsm8k"], {"mixed": ALL["mixed"][1:]}),
        (["two/rows.jsonl"], {"mixed": ["gsm8k", "rows.jsonl", "chain_sum", "mine.py:rows"]}),
        (["mine.py:rows", "a"], {"mixed": ["gsm8k", "rows.jsonl", "chain_sum"]}),
        (["chain_sum"], {"mixed": ["gsm8k", "rows.jsonl", "rows.jsonl", "mine.py:rows"], "arms-arm-x": ["rules"]}),
        (["arms.chain_sum"], {"arms-arm-x": ["rules"]}),
        (["source:drawn"], {"arms-arm-x": ["rules"], "arms-arm-y": ["rules"]}),
    ],
)
def test_the_named_sources_go_from_every_stage(recipe: str, names: list[str], changed: dict[str, Any]) -> None:
    assert _left(recipe, *names) == ALL | changed


def test_what_is_left_out_is_said_in_the_file_as_well(recipe: str) -> None:
    path = Path(recipe)
    path.write_text(path.read_text() + "without: [gsm8k]\n")
    assert load_recipe(recipe).without == ("gsm8k",)
    assert load_recipe(recipe, ["without=null"]).without == ()


def test_the_stages_that_lose_nothing_keep_their_jobs(recipe: str) -> None:
    before, after = load_recipe(recipe), load_recipe(recipe, ["without=[arms.chain_sum]"])
    changed = [one.name for one, two in zip(before.stages, after.stages, strict=True) if one.params != two.params]
    assert changed == ["arms-arm-x"]
    assert [stage.seed for stage in before.stages] == [stage.seed for stage in after.stages]


def test_bad_input_gets_one_clear_line(recipe: str) -> None:
    (line,) = _refused(recipe, "without=[gsm8]")
    assert "without: unknown source 'gsm8'; did you mean 'gsm8k'?" in line
    (line,) = _refused(recipe, "without=[rows.jsonl]")
    assert "'rows.jsonl' is several files; name one of one/rows.jsonl, two/rows.jsonl" in line
    (line,) = _refused(recipe, "without=[arms.plain, arms.drawn]")
    assert "stage 'arms' has no other source than 'arms.drawn' and 'arms.plain'; nothing would be left" in line
    (line,) = _refused(recipe, "without=[{name: jsonl}]")
    assert "expected names of sources, such as [gsm8k]" in line
    (line,) = _refused(recipe, "without=7")
    assert "without: got 7, expected names of sources" in line


def test_licences_and_revisions_are_those_of_the_catalogue_or_the_recipe(recipe: str) -> None:
    first = named_sources(load_recipe(recipe).stages[0].params)[0]
    assert (first.license, first.revision, first.domain) == ("mit", "abc", "maths")
