"""The section `licenses`: what a recipe's text tells is checked before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.contract.licenses import LicenseRule
from pipelines.language.problems import RecipeErrors
from pipelines.plan.plan import build_plan
from pipelines.recipe.recipe import load_recipe

RECIPE = """name: terms
stages:
  rows:
    uses: curate
    with:
      kind: demonstrations
      sources:
        - {domain: maths, source: {name: published, set: gsm8k, path: rows.jsonl}}
        - {domain: bought, source: {name: published, set: gsm8k, path: rows.jsonl, license: CC-BY-NC-4.0}}
        - {domain: files, source: {name: jsonl, path: rows.jsonl}}
        - {domain: made, count: 3, source: {name: rules, accepts: [{rules: [reverse]}]}}
        - {domain: own, source: {name: "./mine.py:rows"}}
  model: {uses: sft, in: {model: "hf:owner/model", dataset: rows.dataset}, with: {steps: 1}}
"""
MINE = """
from components.tasks.source import SourceRequest, SourceRow, SourceRows

def rows(request: SourceRequest) -> SourceRows:
    return SourceRows(iter([]), {"source": "mine"})
"""


@pytest.fixture
def recipe(tmp_path: Path) -> str:
    (tmp_path / "rows.jsonl").write_text('{"prompt": "1 + 1 =", "answer": "2"}\n')
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "terms.yaml").write_text(RECIPE)
    return str(tmp_path / "terms.yaml")


def _refused(recipe: str, *overrides: str) -> list[str]:
    with pytest.raises(RecipeErrors) as error:
        load_recipe(recipe, overrides)
    return str(error.value).splitlines()


def test_a_refused_licence_is_told_at_the_line_of_its_source(recipe: str) -> None:
    (line,) = _refused(recipe, "licenses.refuse=[cc-by-nc-*]")
    assert line.startswith(f"{recipe}:9:") and "stage 'rows': source 'gsm8k' is under CC-BY-NC-4.0" in line
    assert "'cc-by-nc-*' refuses" in line
    lines = _refused(recipe, "licenses.refuse=[mit, cc-by-nc-4.0]")
    assert [line.removeprefix(recipe).split(":")[1] for line in lines] == ["8", "9"]
    assert load_recipe(recipe, ["licenses.refuse=[gpl-3.0]"])


def test_sources_without_a_licence_are_refused_only_where_that_is_asked_for(recipe: str) -> None:
    assert load_recipe(recipe, ["licenses.unknown=allow"])
    (line,) = _refused(recipe, "licenses.unknown=refuse")
    assert "source 'rows.jsonl' states no licence; say what it is: licenses: {declared: {NAME: LICENCE}}" in line
    assert load_recipe(recipe, ["licenses.unknown=refuse", 'licenses.declared={"rows.jsonl": mit}'])


def test_what_is_declared_stands_above_what_is_stated(recipe: str) -> None:
    assert load_recipe(recipe, ["licenses.refuse=[cc-by-nc-*]", "licenses.declared={bought: ours}"])
    (line,) = _refused(recipe, "licenses.refuse=[ours]", "licenses.declared={files: ours}")
    assert "source 'rows.jsonl' is under ours" in line
    (line,) = _refused(recipe, "licenses.refuse=[llama3]", 'licenses.declared={"hf:owner/model": llama3}')
    assert "stage 'model': input model hf:owner/model is under llama3" in line


def test_a_source_that_is_left_out_is_not_refused(recipe: str) -> None:
    assert load_recipe(recipe, ["licenses.refuse=[cc-by-nc-*]", "without=[bought]"])


def test_only_what_is_not_known_yet_is_left_to_the_stages(recipe: str) -> None:
    plan = build_plan(load_recipe(recipe, ["licenses.refuse=[gpl-3.0]"]), "s", "r")
    gates = {job.stage: job.licenses for job in plan.jobs}
    assert gates["rows"] is not None and gates["rows"].open_sources == {4: "mine.py:rows"}
    assert gates["model"] is not None and gates["model"].open_sources == {}
    plain = build_plan(load_recipe(recipe), "s", "r")
    assert all(job.licenses is None and "licenses" not in job.model_dump() for job in plain.jobs)


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("licenses.declared={row.jsonl: mit}", "no source or input is called 'row.jsonl'; did you mean 'rows.jsonl'?"),
        ("licenses.unknown=maybe", "licenses.unknown: got 'maybe', expected"),
        ("licenses.refused=[mit]", "'refused'; did you mean 'refuse'?"),
        ("licenses.refuse=mit", "licenses.refuse"),
        ("licenses=[mit]", "licenses"),
        ('licenses.refuse=[""]', "licenses.refuse"),
    ],
)
def test_bad_input_gets_one_clear_line(recipe: str, override: str, told: str) -> None:
    (line,) = _refused(recipe, override)
    assert told in line


@pytest.mark.parametrize(
    ("refuse", "stated", "refused"),
    [
        (["cc-by-nc-4.0"], ["CC-BY-NC-4.0 "], True),
        (["cc-by-nc-*"], ["cc-by-nc-sa-3.0"], True),
        (["cc-by-nc-*"], ["cc-by-4.0"], False),
        (["*"], ["mit"], True),
        (["gpl-3.0"], ["mit", "gpl-3.0"], True),
        ([], ["other"], False),
        (["other"], [], False),
    ],
)
def test_patterns(refuse: list[str], stated: list[str], refused: bool) -> None:
    assert bool(LicenseRule(refuse=tuple(refuse)).refusal("it", stated)) is refused
