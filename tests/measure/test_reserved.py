"""LaSeR at test time: the token behind a response, by a plain pass; and what a vote makes of it."""

from __future__ import annotations

import math
import string
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from components.contract.errors import InputError
from components.contract.operators import OperatorSpec
from components.measure.harness.context import MeasureContext
from components.measure.intervals import Bootstrap
from components.measure.reserved import reserved_logprobs
from components.measure.scores import ScoreSettings, response_scores
from components.measure.slots import STRATEGY
from components.modeling.loading.load import new_policy
from components.modeling.models.model_config import ModelConfig
from components.modeling.models.policy import Policy
from components.modeling.packing.packed import Packed
from components.modeling.text.prompting import encode_prompts
from components.modeling.text.reserved import reserved_token
from components.modeling.text.tokenizer import train_tokenizer
from components.modeling.text.tokenizer_config import TokenizerConfig
from tests.measure.test_outcomes import written

OUTCOMES = [replace(written("7788-", "rrwwf"), finished=(True, True, True, True, False)), written("123", "wwr")]


@pytest.fixture(scope="module")
def policy() -> Policy:
    tokenizer = train_tokenizer([string.printable], {}, TokenizerConfig(phrases=False))
    made = new_policy(ModelConfig(width=16, layers=1, heads=2, mlp_width=24), tokenizer=tokenizer, seed=0)
    with torch.no_grad():
        made.module.embedding.mul_(10)
    return made


def context(policy: Policy) -> MeasureContext:
    return MeasureContext(bootstrap=Bootstrap(100, 0.95, 0), sampler=SimpleNamespace(policy=policy))  # type: ignore[arg-type]


def by_hand(policy: Policy, prompt: str, response: str) -> float:
    """The log-probability of the token behind one response, from all logits of one pass by itself."""
    assert policy.tokenizer is not None
    (before,) = encode_prompts(policy.tokenizer, [prompt])
    tokens = [*before, *policy.tokenizer.encode(response, add_special_tokens=False), policy.eos_ids[0]]
    with torch.no_grad():
        logits = policy.logits(policy.hidden(Packed.from_sequences([tokens], keep_last=True)))[-1]
    return float(torch.log_softmax(logits.double(), -1)[reserved_token(policy.tokenizer, policy.ends)])


def test_it_is_the_token_behind_the_end_of_each_response(policy: Policy) -> None:
    found = reserved_logprobs(policy, OUTCOMES)
    for outcome, here in zip(OUTCOMES, found, strict=True):
        for text, ended, value in zip(outcome.responses, outcome.finished, here, strict=True):
            assert value == (pytest.approx(by_hand(policy, "", text), abs=1e-4) if ended else None)
    assert found[0][0] == found[0][1], "equal responses"


def test_scores_are_probabilities_or_the_self_reward(policy: Policy) -> None:
    (logprobs, _), now = reserved_logprobs(policy, OUTCOMES), context(policy)
    plain = response_scores(OUTCOMES, now, ScoreSettings(by="reserved"))[0]
    assert plain == pytest.approx([0.0 if value is None else math.exp(value) for value in logprobs])
    settings = ScoreSettings(by="reserved", strength=0.2, reference=-6.0)
    cut = [0.0 if value is None else min(1.0, max(0.0, 0.2 * (value + 6.0))) for value in logprobs]
    assert response_scores(OUTCOMES, now, settings)[0] == pytest.approx(cut)


def test_a_vote_has_these_weights(policy: Policy) -> None:
    """Two votes of 7 against two of 8, and one of each of three answers: the larger sum wins all of them."""
    sums: list[dict[str, float]] = []
    for outcome, scores in zip(
        OUTCOMES, response_scores(OUTCOMES, context(policy), ScoreSettings(by="reserved")), strict=True
    ):
        sums.append({})
        for row in outcome.verified():
            answer = str(outcome.answers[row])
            sums[-1][answer] = sums[-1].get(answer, 0.0) + scores[row]
    expected = [float(max(each, key=each.__getitem__) == right) for each, right in zip(sums, "73", strict=True)]
    bound = OperatorSpec.model_validate({"name": "weighted_vote", "by": "reserved"}).resolve(STRATEGY)
    found = [bound([outcome], context(policy)) for outcome in OUTCOMES]
    assert [found[0][4].accuracy, found[1][3].accuracy] == [[each] for each in expected]


def test_conversations_are_refused(policy: Policy) -> None:
    with pytest.raises(InputError, match="single turns"):
        reserved_logprobs(policy, [replace(OUTCOMES[1], turns=(("a",),) * 3)])
