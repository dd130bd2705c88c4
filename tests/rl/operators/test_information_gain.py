"""RLP's reward: against whole forward passes, its moving baseline, and thoughts that do not belong."""

from __future__ import annotations

import string
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from components.contract.errors import InputError
from components.modeling.loading.load import new_policy
from components.modeling.models.model_config import ModelConfig
from components.modeling.models.policy import Policy
from components.modeling.text.prompting import encode_prompts
from components.modeling.text.tokenizer import train_tokenizer
from components.modeling.text.tokenizer_config import TokenizerConfig
from components.rl.batch.batch import Batch, Prompt, new_batch
from components.rl.step.policies import Policies
from components.tasks.item import Item
from tests.rl.build import context, near, operator
from tests.rl.test_models import moved

THOUGHTS = [["ab", "", "c"], ["d", "abc"]]
NEXTS = ["xyz", "w"]


class Bound:
    """Stands for the collector: the operator reads only its bound on a forward pass."""

    def __init__(self, max_tokens: int) -> None:
        self.max_tokens = max_tokens


@pytest.fixture
def policies() -> Policies:
    tokenizer = train_tokenizer([string.printable], {}, TokenizerConfig(phrases=False))
    policy = new_policy(ModelConfig(width=16, layers=1, heads=2, mlp_width=24), tokenizer=tokenizer, seed=0)
    with torch.no_grad():
        policy.module.embedding.mul_(10)
    return Policies(policy, Path("unused"), dtype="float32")


def thinking(policy: Policy, nexts: list[str] = NEXTS) -> Batch:
    """Return the thoughts as a batch; every other one was cut, so that it has no end mark."""
    assert policy.tokenizer is not None
    items = [
        Item(id=f"p{i}", domain="A", prompt=f"q{i}", answer="unread" if i == 0 else text, verifier="exact")
        for i, text in enumerate(nexts)
    ]
    items[0] = items[0].model_copy(update={"data": {"next": nexts[0]}})
    tokens = encode_prompts(policy.tokenizer, [item.prompt for item in items])
    texts = [text for group in THOUGHTS for text in group]
    rows = [
        [*policy.tokenizer.encode(text, add_special_tokens=False), *([] if i % 2 and text else policy.eos_ids[:1])]
        for i, text in enumerate(texts)
    ]
    count = sum(map(len, rows))
    return new_batch(
        [Prompt(item, tuple(row)) for item, row in zip(items, tokens, strict=True)],
        texts,
        group=torch.tensor([0, 0, 0, 1, 1]),
        lengths=torch.tensor([len(row) for row in rows]),
        finished=torch.ones(5, dtype=torch.bool),
        tokens=torch.tensor([token for row in rows for token in row]),
        old_logprobs=torch.zeros(count),
        entropies=torch.zeros(count),
    )


def gain(batch: Batch, policies: Policies, *, max_tokens: int = 99, **config: object) -> torch.Tensor:
    made: Any = Bound(max_tokens)
    return operator("reward", "information_gain", **config)(batch, context(collector=made, policies=policies))


def behind(policy: Policy, text: str, after: str, horizon: int) -> float:
    """Return the mean log-probability of the first tokens of `after` behind `text`, by one plain forward pass."""
    from components.modeling.packing.packed import Packed

    assert policy.tokenizer is not None
    context_ids, next_ids = (policy.tokenizer.encode(part, add_special_tokens=False) for part in (text, after))
    with torch.no_grad():
        packed = Packed.from_sequences([context_ids + next_ids])
        logprobs = policy.target_logprobs(packed).logprobs
    start = len(context_ids) - 1
    return float(logprobs[start : start + min(horizon, len(next_ids))].mean())


@pytest.mark.parametrize("horizon", [1, 2, 5])
def test_the_reward_is_a_difference_of_two_forward_passes(policies: Policies, horizon: int) -> None:
    batch = thinking(policies.trained)
    average = policies.average(0.9)
    moved(policies.trained, 3)
    expected = [
        behind(policies.trained, f"q{index}\n{thought}|", NEXTS[index], horizon)
        - behind(average, f"q{index}\n", NEXTS[index], horizon)
        for index, group in enumerate(THOUGHTS)
        for thought in group
    ]
    for max_tokens in (99, 12):
        found = gain(batch, policies, horizon=horizon, close="|", decay=0.9, max_tokens=max_tokens)
        assert near(found, expected, 1e-5)


def test_without_thought_and_mark_nothing_is_gained_at_first_and_the_baseline_follows_slowly(
    policies: Policies,
) -> None:
    batch = thinking(policies.trained)
    assert float(gain(batch, policies, close="", decay=0.5)[1]) == pytest.approx(0.0, abs=1e-6)
    moved(policies.trained, 1)
    before = float(gain(batch, policies, close="", decay=0.5)[1])
    policies.end_step(1)
    after = float(gain(batch, policies, close="", decay=0.5)[1])
    assert before != 0.0 and after != before


def test_thoughts_of_others_are_those_of_the_other_half(policies: Policies) -> None:
    batch = thinking(policies.trained)
    order = [2, 3, 4, 0, 1]
    rows = batch.tokens.split(batch.lengths.tolist())
    swapped = replace(batch, tokens=torch.cat([rows[row] for row in order]), lengths=batch.lengths[torch.tensor(order)])
    assert torch.equal(gain(batch, policies, thoughts="other"), gain(swapped, policies))
    assert not torch.equal(gain(batch, policies, thoughts="other"), gain(batch, policies))


def test_a_prompt_without_a_continuation_is_refused(policies: Policies) -> None:
    with pytest.raises(InputError, match="no text that follows"):
        gain(thinking(policies.trained, ["xyz", ""]), policies)
