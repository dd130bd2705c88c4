"""Strategy score_vote: what it reads of an evaluation, and what a meta reward model leaves of the votes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from components.contract.errors import InputError
from components.contract.heads import LANGUAGE, SCORES
from components.contract.operators import OperatorRefused, OperatorSpec
from components.evaluate.component import heads
from components.evaluate.params import EvaluateParams
from components.measure.chosen_params import asked_inputs
from components.measure.harness.context import MeasureContext, Spent
from components.measure.outcomes import ItemOutcomes
from components.measure.slots import STRATEGY
from components.tasks.item import Item
from components.tasks.verify import verify
from tests.measure.test_outcomes import written
from tests.measure.test_reward_models import BOOTSTRAP, Scripted

RIGHT, WRONG, BROKEN = "<answer>9 4 5", "<answer>5 9 1", "<answer>none"


def judged(*responses: str, **data: Any) -> ItemOutcomes:
    asked = Item(
        id="i",
        domain="A",
        prompt="rank",
        answer="9 1 1",
        verifier="ranks_best",
        data={"candidates": list("abc"), "best": 0, "scale": [1, 9], **data},
    )
    blank = written("7" * len(responses), "w" * len(responses))
    return replace(blank, item=asked, responses=responses, verdicts=tuple(verify(asked, text) for text in responses))


def vote(outcome: ItemOutcomes, table: dict[str, float | None] | None = None, **config: Any) -> dict[int, Spent]:
    further: Any = {} if table is None else {"scorers": [Scripted(table)]}
    bound = OperatorSpec.model_validate({"name": "score_vote", "meta": table is not None, **config}).resolve(STRATEGY)
    return dict(bound([outcome], MeasureContext(bootstrap=BOOTSTRAP, further=further)))


def accuracy(spent: dict[int, Spent]) -> list[float | None]:
    return [spent[k].accuracy[0] for k in sorted(spent)]


def test_one_vote_is_pass_at_1_and_sums_decide() -> None:
    outcome = judged(RIGHT, WRONG, WRONG, BROKEN)
    # pairs: the right one with a wrong one (14 to 13, twice) or the unread one; all four: 19 to 22
    assert accuracy(vote(outcome)) == pytest.approx([outcome.pass_rate, 3 / 6, 0.0])
    assert outcome.pass_rate == 0.25


def test_tokens_are_those_of_all_samples() -> None:
    assert {k: spent.tokens[0] for k, spent in vote(judged(RIGHT, WRONG, WRONG, BROKEN)).items()} == {
        1: 2.5,
        2: 5.0,
        4: 10.0,
    }


def test_a_meta_reward_model_that_knows_right_ones_filters_the_others() -> None:
    outcome = judged(RIGHT, WRONG, WRONG, RIGHT)
    knows: dict[str, float | None] = {RIGHT: 1.0, WRONG: -1.0}
    assert accuracy(vote(outcome)) == pytest.approx([0.5, 5 / 6, 1.0])
    assert accuracy(vote(outcome, knows)) == pytest.approx([0.5, 5 / 6, 1.0])
    assert accuracy(vote(outcome, {RIGHT: -1.0, WRONG: None}, kept=0.25))[-1] == 1.0
    assert accuracy(vote(judged(RIGHT, WRONG, WRONG, WRONG), knows, kept=0.25)) == pytest.approx([0.25, 0.5, 1.0])


def test_items_without_candidates_are_refused_in_one_line() -> None:
    with pytest.raises(InputError, match=r"^strategy score_vote: item i has no candidates to be ranked: data\.best"):
        vote(judged(RIGHT, best=7))


def test_a_reward_model_is_asked_for_where_it_filters() -> None:
    def params(*strategies: Any) -> EvaluateParams:
        return EvaluateParams.model_validate({"num_samples": 4, "strategies": list(strategies)})

    assert "scorers" not in asked_inputs(params("score_vote")) and heads(params("score_vote"))["scorers"] == LANGUAGE
    both = params("score_vote", {"name": "score_vote", "meta": True, "label": "meta_vote"})
    assert asked_inputs(both)["scorers"] == ["strategy 'score_vote'"] and heads(both)["scorers"] == SCORES
    for bad in ({"kept": 0.0}, {"kept": 1.5}, {"subsets": 0}):
        with pytest.raises(OperatorRefused):
            OperatorSpec.model_validate({"name": "score_vote", **bad}).resolve(STRATEGY)
    with pytest.raises(ValueError, match="score_vote"):
        params("score_vote", {"name": "score_vote", "meta": True})
