"""Divergence from a reference: each response by a plain pass of its own, and its sign over what a model draws."""

from __future__ import annotations

import string
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from pydantic import ValidationError

from components.contract.errors import InputError
from components.contract.operators import OperatorSpec
from components.evaluate.component import asks
from components.evaluate.params import EvaluateParams
from components.measure.harness.context import MeasureContext
from components.measure.intervals import Bootstrap
from components.measure.log_ratios import log_ratios
from components.measure.slots import METRIC
from components.modeling.loading.load import new_policy
from components.modeling.models.model_config import ModelConfig
from components.modeling.models.policy import Policy
from components.modeling.packing.packed import Packed
from components.modeling.serving.local import LocalModel
from components.modeling.text.prompting import encode_prompts
from components.modeling.text.tokenizer import train_tokenizer
from components.modeling.text.tokenizer_config import TokenizerConfig
from tests.measure.test_outcomes import written

OUTCOMES = [replace(written("7788-", "rrwwf"), finished=(True, True, True, True, False)), written("123", "wwr")]
TOKENIZER = train_tokenizer([string.printable], {}, TokenizerConfig(phrases=False))


def made(seed: int, tokenizer: Any = TOKENIZER) -> Policy:
    policy = new_policy(ModelConfig(width=16, layers=1, heads=2, mlp_width=24), tokenizer=tokenizer, seed=seed)
    with torch.no_grad():
        policy.module.get_parameter("embedding").mul_(10)
    return policy


class Weights(LocalModel):
    """A model of this process whose weights are given."""

    def __init__(self, policy: Policy) -> None:
        self.name, self.given = "sft.model", policy

    @property
    def policy(self) -> Policy:
        return self.given


def context(policy: Policy, reference: Any) -> MeasureContext:
    return MeasureContext(
        bootstrap=Bootstrap(100, 0.95, 0),
        sampler=SimpleNamespace(policy=policy),  # type: ignore[arg-type]
        further={"reference": [reference]},
        temperature=1.0,
    )


def by_hand(policy: Policy, prompt: str, response: str, ended: bool) -> float:
    """The log-probability of one response, from all logits of one pass by itself."""
    assert policy.tokenizer is not None
    (before,) = encode_prompts(policy.tokenizer, [prompt])
    said = policy.tokenizer.encode(response, add_special_tokens=False) + ([policy.eos_ids[0]] if ended else [])
    with torch.no_grad():
        packed = Packed.from_sequences([[*before, *said]], keep_last=True)
        table = torch.log_softmax(policy.logits(policy.hidden(packed)).double(), -1)
    return sum(float(table[len(before) - 1 + at, token]) for at, token in enumerate(said))


def test_it_is_the_gap_of_both_log_probabilities_over_all_tokens() -> None:
    policy, reference = made(0), made(1)
    for outcome, here in zip(OUTCOMES, log_ratios(policy, reference, OUTCOMES), strict=True):
        for text, ended, value in zip(outcome.responses, outcome.finished, here, strict=True):
            mine, its = (by_hand(one, outcome.item.prompt, text, ended) for one in (policy, reference))
            assert value == pytest.approx(mine - its, abs=1e-3)


def test_the_metric_is_the_mean_of_a_prompt_and_0_of_the_model_itself() -> None:
    policy, reference = made(0), made(1)
    operator = OperatorSpec(name="reference_divergence").resolve(METRIC)
    found = operator(OUTCOMES, context(policy, Weights(reference)))["reference_divergence"]
    ratios = log_ratios(policy, reference, OUTCOMES)
    assert found == pytest.approx([sum(here) / len(here) for here in ratios])
    assert operator(OUTCOMES, context(policy, Weights(policy))) == {"reference_divergence": [0.0, 0.0]}


def test_exchanging_the_models_changes_the_sign() -> None:
    policy, reference = made(0), made(1)
    there, back = (log_ratios(one, other, OUTCOMES) for one, other in ((policy, reference), (reference, policy)))
    for ours, theirs in zip(there, back, strict=True):
        assert ours == pytest.approx([-value for value in theirs], abs=1e-4)


def test_what_cannot_be_compared_gets_one_line() -> None:
    operator = OperatorSpec(name="reference_divergence").resolve(METRIC)
    policy = made(0)
    other = train_tokenizer(["abc"], {}, TokenizerConfig(phrases=False))
    for given, message in (
        (context(policy, Weights(made(1, other))), "another tokenizer"),
        (context(policy, SimpleNamespace(name="endpoint:big")), "endpoint:big is an endpoint"),
    ):
        with pytest.raises(InputError, match=message):
            operator(OUTCOMES, given)
    talk = replace(OUTCOMES[0], turns=(("a",),) * 5)
    with pytest.raises(InputError, match="conversations"):
        log_ratios(policy, policy, [talk])


def test_the_stage_asks_for_a_reference() -> None:
    assert "reference" in asks(EvaluateParams.model_validate({"metrics": ["reference_divergence"]}))


@pytest.mark.parametrize("drawn", [{"temperature": 0.7}, {"top_p": 0.9}])
def test_samples_that_are_not_the_models_own_are_refused_before_any_is_drawn(drawn: dict[str, float]) -> None:
    with pytest.raises(ValidationError, match="reference_divergence: samples must be the model's own"):
        EvaluateParams.model_validate({"metrics": ["reference_divergence"], "num_samples": 2, **drawn})
