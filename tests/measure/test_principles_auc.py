"""Diagnostic principles_auc on pairs written by hand, and by sklearn on whatever passes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from components.contract.errors import InputError
from components.contract.operators import OperatorSpec
from components.measure.harness.context import MeasureContext
from components.measure.harness.views import View
from components.measure.intervals import Bootstrap, Interval
from components.measure.slots import DIAGNOSTIC
from tests.pipelines.writing import messages
from tests.support.stage_context import write_jsonl

SHORT = {"name": "short", "verifier": {"name": "word_count", "most": 2}, "veto": True}
NAMED = {"name": "named", "verifier": "phrases", "data": {"phrases": ["b7"]}, "veto": True}


def pair(
    chosen: str, rejected: str, prompt: str = "p", domain: str = "a", rubric: Any = (SHORT, NAMED)
) -> dict[str, Any]:
    data = {"rubric": {"criteria": list(rubric)}} if rubric else {}
    shared = {"id": f"{prompt}-{chosen}-{rejected}", "domain": domain, "answer": "", "verifier": "unlabelled"}
    return {**shared, "prompt": prompt, "data": data, "chosen": chosen, "rejected": rejected}


def diagnose(folder: Path, rows: list[dict[str, Any]]) -> View:
    context = MeasureContext(bootstrap=Bootstrap(200, 0.95, 0), pairs=[write_jsonl(folder / "pairs", rows)])
    view = OperatorSpec(name="principles_auc").resolve(DIAGNOSTIC)({}, context)
    assert isinstance(view, View)
    return view


def values(view: View) -> dict[str, float]:
    return {name: found.value if isinstance(found, Interval) else found for name, found in view.metrics.items()}


def test_by_hand(tmp_path: Path) -> None:
    rows = [
        pair("b7 k2", "k2", "p"),  # passes, caught
        pair("b7", "b7 then", "q"),  # both pass
        pair("b7 then k2", "b7 then some more", "r"),  # neither
        pair("b7 !", "b7 and k2", "s"),
        pair("b7", "x", "t", domain="b"),
    ]
    view = diagnose(tmp_path, rows)
    # a: 3 of 4 good ones pass and 1 of 4 bad ones; of 16 comparisons 9 are won, 3 + 3 tied
    assert values(view) == pytest.approx({
        "judge_auc_a": (9 + 6 / 2) / 16, "judge_passes_good_a": 3 / 4, "judge_passes_bad_a": 1 / 4,
        "num_principles_a": 2, "judge_auc_b": 1, "judge_passes_good_b": 1, "judge_passes_bad_b": 0,
        "num_principles_b": 2,
    })  # fmt: skip
    assert list(view.domains) == ["a", "b"] and view.tables[0].title == "principles: short, named"
    found = view.metrics["judge_auc_a"]
    assert isinstance(found, Interval) and found.low <= found.value <= found.high and found.n == 4


WORDS = st.lists(st.sampled_from(["b7", "x", "y"]), min_size=1, max_size=4).map(" ".join)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(WORDS, WORDS).filter(lambda both: both[0] != both[1]), min_size=1, max_size=6))
def test_as_sklearn_counts(tmp_path: Path, sides: list[tuple[str, str]]) -> None:
    found = values(diagnose(tmp_path, [pair(*both, prompt=f"p{at}") for at, both in enumerate(sides)]))
    good, bad = zip(*sides, strict=True)
    passes = [float(len(text.split()) <= 2 and "b7" in text.split()) for text in (*good, *bad)]
    labels = [1] * len(sides) + [0] * len(sides)
    assert found["judge_auc_a"] == pytest.approx(roc_auc_score(labels, passes))
    assert found["judge_passes_bad_a"] == pytest.approx(sum(passes[len(sides) :]) / len(sides))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "input `pairs` holds no pair"),
        ([pair("a", "b", rubric=())], r"1: diagnostic principles_auc: no list of principles \(data\.rubric\)"),
        ([pair("a", "b"), pair("a", "c", rubric=(SHORT,))], "2: diagnostic principles_auc: another list than that"),
        ([pair("a", "a")], "1: chosen and rejected are equal"),
        ([pair("a", "b", rubric=({"name": "x", "verifier": "exct"},))], "1: data.rubric of item .* is no rubric"),
    ],
)
def test_rows_that_are_no_pairs_are_told_with_their_line(
    tmp_path: Path, rows: list[dict[str, Any]], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        diagnose(tmp_path, rows)


def test_a_recipe_without_pairs_is_refused_in_a_line(tmp_path: Path) -> None:
    recipe = """
stages:
  data: {uses: curate, with: {kind: prompts, sources: [{domain: words, count: 9, source: notes}]}}
  base: {uses: pretrain, in: {dataset: data.dataset}}
  audit: {uses: evaluate, in: {model: base.model, dataset: data.dataset}, with: {diagnostics: [principles_auc]}}
"""
    (found,) = messages(tmp_path, recipe)
    assert "diagnostic 'principles_auc' asks the input 'pairs', which is not connected" in found
