"""Generators judgements and openers: rows that teach a judge its own request."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from pydantic import ValidationError

from components.contract.operators import OperatorSpec
from components.judges.config import PointwiseConfig
from components.judges.judge import Case, PointwiseJudge
from components.synthesize.component import asks
from components.synthesize.generators.openers import first_step
from components.synthesize.made import Dropped, Made
from components.synthesize.params import SynthesizeParams
from components.synthesize.slots import GENERATOR
from components.synthesize.writers import Writers
from tests.judges.scripted import Scripted as ScriptedJudge
from tests.synthesize.scripted import CONTEXT, item, scripted

SUM = item("a", "2 + 2 =", "4")
JUDGE: dict[str, Any] = {
    "template": "{response} {answer}=",
    "fence": "quoted",
    "mark": "so",
    "labels": {"y": 1, "n": 0},
}
TEXTS = ("<answer>4", "<answer>5", "<answer>4", "<answer>6", "cut...")


def make(name: str, writers: Writers, items: Any = (SUM,), **settings: Any) -> list:
    spec = OperatorSpec.model_validate({"name": name, "judge": JUDGE, **settings})
    return list(spec.resolve(GENERATOR)(items, writers, CONTEXT))


def rows(made: list) -> list[Made]:
    return [row for row in made if isinstance(row, Made)]


def drops(made: list) -> Counter[str]:
    return Counter(row.reason for row in made if isinstance(row, Dropped))


def judged(**settings: Any) -> list:
    return make("judgements", scripted(lambda asked, n: TEXTS[n]), num_samples=5, **settings)


def test_judgements_by_hand() -> None:
    made = judged()
    assert [(row.item.prompt, row.response, row.item.answer, row.item.verifier) for row in rows(made)] == [
        ('"<answer>4" "4"=', "so y", "y", "exact"),
        ('"<answer>5" "4"=', "so n", "n", "exact"),
        ('"<answer>6" "4"=', "so n", "n", "exact"),
    ]
    assert drops(made) == {"repeated": 1, "unfinished": 1}
    assert rows(made)[1].extras == {"of": "a", "quality": "scripted", "score": 0.0}


def test_balance_and_cap() -> None:
    assert drops(judged(balance=True)) == {"repeated": 1, "unfinished": 1, "unbalanced": 1}
    assert drops(judged(max_per_prompt=1)) == {"repeated": 1, "unfinished": 1, "over_cap": 1}


def test_the_judge_reads_the_answer_alone_if_asked_to() -> None:
    texts = ("so <answer>4", "<answer>4</answer>", "<think>x<answer>", "<answer>5", "5", "")
    made = make("judgements", scripted(lambda asked, n: texts[n]), num_samples=6, final_answer=True)
    assert [(row.item.prompt, row.response) for row in rows(made)] == [('"4" "4"=', "so y"), ('"5" "4"=', "so n")]
    assert drops(made) == {"repeated": 1, "unparsed": 3}, "a text without a mark gives no final answer"


@pytest.mark.parametrize("name", ["judgements", "openers"])
def test_rows_are_what_the_judge_will_be_asked(name: str) -> None:
    """The request is that of the judge itself, which shares none of the generator's code."""
    text = "Let me see. It is\n<answer>5"
    (row,) = rows(make(name, scripted(lambda asked, n: text), num_samples=1))
    model = ScriptedJudge(lambda request: "so n")
    told = "Let me see." if name == "openers" else text
    (said,) = PointwiseJudge(model, PointwiseConfig.model_validate(JUDGE)).judge([(Case(SUM.prompt, SUM.answer), told)])
    assert model.asked == [row.item.prompt] and said.value == 0.0 and row.response == "so n"


def test_judgements_in_words_are_kept_where_their_verdict_is_the_verifiers() -> None:
    said = ["4 is 4\nso y", "I like it\nso y", "no idea"]

    def judge(asked: Any, n: int) -> str:
        endings = asked.data["endings"]
        assert (asked.data["request"], endings["right"], endings["wrong"]) == ("judge", "so y", "so n")
        return said[TEXTS[:2].index(asked.data["response"]) if asked.data["response"] in TEXTS[:2] else 2]

    made = make("judgements", scripted(lambda asked, n: TEXTS[n], judge), num_samples=4, worded=True)
    assert [(row.response, row.item.answer, row.extras["judge"]) for row in rows(made)] == [
        ("4 is 4\nso y", "y", "judge")
    ]
    assert drops(made) == {"repeated": 1, "wrong_verdict": 1, "unparsed": 1}


def test_a_response_that_holds_the_verdict_is_no_lesson() -> None:
    made = make("judgements", scripted(lambda asked, n: "so n <answer>5"), num_samples=1)
    assert drops(made) == {"unreadable": 1}


@pytest.mark.parametrize(
    ("text", "step"),
    [
        ("Let me see. 2 and 2.\n<answer>4", "Let me see."),
        ("Solution <answer>4", "Solution"),
        ("Thought process:\nsum", "Thought process:"),
        ("One step only.", None),
        ("<answer>4", None),
        ("  \n", None),
        ("", None),
        ("First. <answer>4. Then.", "First."),
        (". . .", "."),
    ],
)
def test_the_first_step_ends_before_the_second_or_the_answer(text: str, step: str | None) -> None:
    assert first_step(text, r"(?<=[.!?:])\s+|\n+") == step


def test_openers_by_hand() -> None:
    texts = [
        "Let me see. <answer>4",
        "Let me see. <answer>7",
        "4. So 4. <answer>4",
        "<answer>4",
        "cut...",
        None,
        "Hm <answer>4",
    ]
    made = make("openers", scripted(lambda asked, n: texts[n]), num_samples=7, max_per_prompt=2)
    assert [(row.item.prompt, row.response) for row in rows(made)] == [('"Let me see." "4"=', "so n")]
    expected = {"repeated": 1, "answers": 1, "no_steps": 1, "unfinished": 1, "refused": 1, "over_cap": 1}
    assert drops(made) == expected, "an opener that answers is dropped: it is right"


def test_who_is_asked_and_what_is_refused() -> None:
    generator = {"name": "judgements", "judge": JUDGE}
    assert set(asks(SynthesizeParams.model_validate({"generator": generator}))) == {"teachers"}
    worded = SynthesizeParams.model_validate({"generator": {**generator, "worded": True}})
    assert asks(worded) == {"teachers": ["generator 'judgements'"], "judges": ["generator 'judgements'"]}
    for bad, says in (
        ({"template": "{task}"}, r"lacks \{response\}"),
        ({"labels": {"y": 1, "n": 1}}, "all labels are worth the same"),
    ):
        with pytest.raises(ValidationError, match=says):
            SynthesizeParams.model_validate({"generator": {"name": "openers", "judge": {**JUDGE, **bad}}})
