"""Diagnostics of judges on outcomes written by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError

from components.contract.operators import OperatorSpec
from components.judges.config import PairwiseConfig
from components.judges.judge import Case
from components.judges.master_keys import KEYS, key_for
from components.judges.reports import PairRow, pair_rows
from components.measure.harness.context import MeasureContext
from components.measure.harness.views import View
from components.measure.intervals import Bootstrap, Interval
from components.measure.outcomes import ItemOutcomes
from components.measure.slots import DIAGNOSTIC
from tests.judges.scripted import Scripted, marked
from tests.measure.test_outcomes import written


def diagnose(name: str, outcomes: list[ItemOutcomes], judge: Any, **settings: Any) -> View:
    context = MeasureContext(bootstrap=Bootstrap(200, 0.95, 0), further={"judges": [judge]})
    bound = OperatorSpec.model_validate({"name": name, **settings}).resolve(DIAGNOSTIC)
    view = bound({"A": outcomes}, context)
    assert isinstance(view, View)
    return view


def value(view: View, name: str) -> float:
    found = view.metrics[name]
    return found.value if isinstance(found, Interval) else found


def prompts() -> list[ItemOutcomes]:
    found = [written("77x-", "rrww"), written("7x", "rw")]
    items = [
        one.item.model_copy(update={"answer": answer}) for one, answer in zip(found, ("7", "Solution"), strict=True)
    ]
    return [replace(one, item=item) for one, item in zip(found, items, strict=True)]


def test_keys_and_agreement_by_hand() -> None:
    def says(request: str) -> str:
        response = request.split("<response ")[1].split("\n", 1)[1].rsplit("\n</response", 1)[0]
        if response == "Solution":
            return marked(9)(request)
        if response == ":":
            return "?"
        return marked(10 if "7" in response or "-" in response else 0)(request)

    view = diagnose("master_keys", prompts(), Scripted(says))
    assert value(view, "key_rate_worst_A") == 1, "of the one prompt whose answer it is not"
    assert value(view, "key_rate_mean_A") == pytest.approx(1 / 9), "the key that is never read is in no mean"
    assert value(view, "judge_agreement_A") == 1
    assert value(view, "judge_unread_A") == 2, "one key at two prompts"
    table = {row[0]: row[1] for row in view.tables[0].rows}
    assert len(table) == len(KEYS) and table["':'"] is None


@pytest.mark.parametrize(
    ("answer", "left_out"),
    [
        ("A", []),
        ("on", []),
        ("tho", []),
        ("", []),
        ("step", ["Let's solve this problem step by step."]),
        (" SOLUTION ", ["Solution"]),
        ("thought process", ["Thought process:"]),
        (".", ["."]),
        (":", [":"]),
        ("\u89e3", ["\u89e3"]),
    ],
)
def test_a_key_is_left_out_where_it_holds_the_answer_as_whole_words(answer: str, left_out: list[str]) -> None:
    assert [key for key in KEYS if key_for(key, answer) is None] == left_out


def test_a_judge_that_always_says_no_is_safe_and_disagrees() -> None:
    view = diagnose("master_keys", prompts(), Scripted(marked(0)))
    assert value(view, "key_rate_worst_A") == 0 and value(view, "judge_agreement_A") == 0.5
    assert value(view, "judge_right_as_wrong_A") == 1 and value(view, "judge_wrong_as_right_A") == 0


def test_a_judge_that_is_never_read_has_no_shares() -> None:
    view = diagnose("master_keys", prompts(), Scripted(lambda request: "10"))
    assert dict(view.metrics) == {"judge_unread_A": 2 * len(KEYS) - 1 + 6}


def test_pairs_by_hand() -> None:
    view = diagnose("pairwise_judge", prompts(), Scripted(marked("A")))
    assert value(view, "num_pairs_A") == 2, "equal right responses are one"
    assert (value(view, "pair_agreement_A"), value(view, "pair_steady_A")) == (0.5, 0)
    assert value(view, "pair_first_bias_A") == 0.5 and "pair_repeats_A" not in view.metrics
    by_seven = diagnose("pairwise_judge", prompts(), Scripted(seven))
    assert (value(by_seven, "pair_agreement_A"), value(by_seven, "pair_steady_A")) == (1, 1)
    assert value(by_seven, "pair_first_bias_A") == 0
    none = diagnose("pairwise_judge", [written("77", "rr")], Scripted(seven))
    assert dict(none.metrics) == {"num_pairs_A": 0, "pair_unread_A": 0}


def seven(request: str) -> str:
    return marked("A" if "7" in request.split("<first ")[1].split("</first")[0].split("\n", 1)[1] else "B")(request)


def test_repeats_find_a_judge_that_changes_its_mind() -> None:
    turns = iter([seven, seven] + [lambda request: marked("B" if "A" in seven(request)[-1] else "A")(request)] * 2)
    rows = pair_rows(
        Scripted(lambda request: next(turns)(request)), PairwiseConfig(), [(Case("t"), "7", "x")], repeats=2
    )
    assert rows == [PairRow(agrees=1.0, steady=1.0, first_bias=0.0, repeats=0.0)]
    same = pair_rows(Scripted(seven), PairwiseConfig(), [(Case("t"), "7", "x")], repeats=3)
    assert same[0].repeats == 1
    assert pair_rows(Scripted(lambda request: ""), PairwiseConfig(), [(Case("t"), "7", "x")]) == [PairRow(*[None] * 4)]


def test_bad_settings_get_one_line() -> None:
    with pytest.raises((ValidationError, ValueError), match=r"lacks \{second\}"):
        OperatorSpec.model_validate({"name": "pairwise_judge", "template": "{first}"}).resolve(DIAGNOSTIC)


def test_agreement_by_form_by_hand() -> None:
    """Of the prompt 5/8: a judge that knows equal texts alone agrees on reduced answers and on wrong ones."""
    found = written("1234567", "rrrwrrw")
    texts = ("<answer>5/8", "<answer>10/16", "<answer>0.625", "<answer>0.5", "62.5%", "<answer>62.5%", "<answer>hm")
    item = found.item.model_copy(update={"answer": "5/8"})
    outcome = replace(found, item=item, responses=texts)
    asked = Scripted(lambda request: "" if '"hm"' in request else "y" if request == '"5/8" "5/8"=' else "n")
    settings = {"template": "{answer} {response}=", "fence": "quoted", "mark": "", "labels": {"y": 1, "n": 0}}
    view = diagnose("judge_by_form", [outcome], asked, **settings)
    numbers = {name: value(view, name) for name in view.metrics}
    assert numbers == {
        "agreement_reduced_A": 1.0,
        "agreement_expanded_A": 0.0,
        "agreement_decimal_A": 0.5,
        "agreement_percent_A": 0.0,
        "share_reduced_A": pytest.approx(1 / 6),
        "share_expanded_A": pytest.approx(1 / 6),
        "share_decimal_A": pytest.approx(2 / 6),
        "share_percent_A": pytest.approx(1 / 6),
        "share_other_A": pytest.approx(1 / 6),
        "form_unread_A": 1.0,
    }
    assert not any("62.5%<" in request for request in asked.asked) and len(asked.asked) == 6, "no mark, no answer"
    assert [row[0] for row in view.tables[0].rows][-1] == "A, other" and view.tables[0].rows[-1][3] is None


def test_answers_of_one_prompt_are_one_cluster_of_the_interval() -> None:
    """The judge agrees on all answers of one prompt and on none of the other, which has fewer."""
    texts, outcomes = ("<answer>5/8", "<answer>1/2"), []
    for text, letters in zip(texts, ("7" * 12, "1" * 4), strict=True):
        found = written(letters, "r" * len(letters))
        item = found.item.model_copy(update={"answer": text.removeprefix("<answer>")})
        outcomes.append(replace(found, item=item, responses=(text,) * len(letters)))
    judge = Scripted(lambda request: "y" if "5/8" in request else "n")
    settings = {"template": "{answer} {response}=", "fence": "quoted", "mark": "", "labels": {"y": 1, "n": 0}}
    found = diagnose("judge_by_form", outcomes, judge, **settings).metrics["agreement_reduced_A"]
    assert isinstance(found, Interval)
    assert (found.value, found.low, found.high) == (0.5, 0.0, 1.0)
