"""Metric revision by hand: an actor from a table answers again after each critique."""

from __future__ import annotations

from dataclasses import replace

import pytest

from components.contract.errors import InputError
from components.contract.operators import OperatorRefused, OperatorSpec
from components.evaluate.component import asks
from components.evaluate.params import EvaluateParams
from components.measure.harness.context import MeasureContext
from components.measure.intervals import Bootstrap
from components.measure.outcomes import ItemOutcomes
from components.measure.slots import METRIC
from components.tasks.item import Item
from components.tasks.revised import about
from tests.judges.scripted import Scripted
from tests.measure.test_outcomes import written

TASK = Item(id="t", domain="A", prompt="1+2", answer="3", verifier="exact")


def criticised(response: str, *critiques: str, task: Item = TASK) -> ItemOutcomes:
    item = Item(id=response, domain="A", prompt="?", answer="right", verifier="exact", data=about(task, response))
    return replace(written("7" * len(critiques), "r" * len(critiques)), item=item, responses=critiques)


def measured(outcomes: list[ItemOutcomes], actor: Scripted) -> dict[str, list[float | None]]:
    operator = OperatorSpec.model_validate({"name": "revision", "question": "{prompt} {response} {critique}"}).resolve(
        METRIC
    )
    return operator(outcomes, MeasureContext(bootstrap=Bootstrap(300, 0.95, 0), further={"partners": [actor]}))


def test_flips_are_counted_by_what_the_response_was_worth() -> None:
    table = {"1+2 3 ok": "3", "1+2 3 no": "4", "1+2 4 ok": "4", "1+2 4 no": "3", "1+2 5 hm": None}
    actor = Scripted(table.__getitem__)
    found = measured(
        [criticised("3", "ok", "no", "ok", "ok"), criticised("4", "no", "no", "no", "ok"), criticised("5", "hm")], actor
    )
    assert found == {
        "unrevised": [1.0, 0.0, 0.0],
        "revised": [0.75, 0.75, None],
        "mended": [None, 0.75, None],
        "spoiled": [0.25, None, None],
    }
    assert sorted(actor.asked) == sorted(table), "equal questions are asked once"


def test_control_marks_are_broken_in_the_question_of_the_actor() -> None:
    actor = Scripted(lambda request: "3")
    actor.control_marks = ["[end]"]  # type: ignore[attr-defined]
    measured([criticised("3<|eos|>", "ok[end]")], actor)
    assert actor.asked == ["1+2 3< |eos|> ok[ end]"]


def test_what_cannot_be_verified_is_in_no_share() -> None:
    broken = TASK.model_copy(update={"answer": ""})
    found = measured([criticised("3", "ok", task=broken)], Scripted(lambda request: "3"))
    assert found == {name: [None] for name in ("unrevised", "revised", "mended", "spoiled")}


def test_other_rows_and_other_questions_are_refused() -> None:
    with pytest.raises(InputError, match="generator attempts"):
        measured([written("7", "r")], Scripted())
    with pytest.raises(OperatorRefused, match=r"lacks \{critique\}"):
        OperatorSpec.model_validate({"name": "revision", "question": "again"}).resolve(METRIC)


def test_it_needs_the_actor() -> None:
    params = EvaluateParams.model_validate({"metrics": ["revision"]})
    assert asks(params)["partners"] == ["metric 'revision'"]
