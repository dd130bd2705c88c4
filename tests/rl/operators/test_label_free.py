"""Rewards without a verifier: against plain forward passes and numbers worked by hand."""

from __future__ import annotations

import math
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from components.contract.errors import InputError
from components.modeling.loading.load import new_policy
from components.modeling.models.model_config import ModelConfig
from components.modeling.models.policy import Policy
from components.modeling.packing.packed import Packed
from components.modeling.text.prompting import encode_prompts
from components.modeling.text.tokenizer import train_tokenizer
from components.modeling.text.tokenizer_config import TokenizerConfig
from components.rl.batch.batch import RIGHT, WRONG, Batch, Prompt, new_batch
from components.rl.step.collector import Collector
from components.rl.step.ledger import PassRates
from components.rl.step.policies import Policies
from components.rl.step.thoughts import thoughts_of
from components.tasks.item import Item
from tests.rl.build import batch_of, context, near, operator
from tests.rl.operators.test_rewards import answers, reward


def policy_of(seed: int = 0) -> Policy:
    tokenizer = train_tokenizer([string.printable], {}, TokenizerConfig(phrases=False))
    policy = new_policy(ModelConfig(width=16, layers=1, heads=2, mlp_width=24), tokenizer=tokenizer, seed=seed)
    with torch.no_grad():
        policy.module.embedding.mul_(10)
    return policy


@pytest.fixture(scope="module")
def policy() -> Policy:
    return policy_of()


def collector(policy: Policy, max_tokens: int = 60) -> Collector:
    return Collector(
        policy,
        context().settings,
        generator=torch.Generator().manual_seed(0),
        ledger=PassRates(),
        reward=lambda batch: batch.rewards,
        max_tokens=max_tokens,
    )


def written(policy: Policy, texts: Sequence[Sequence[str]], expected: Sequence[str], **data: Any) -> Batch:
    """Return responses, one group for each reference answer."""
    assert policy.tokenizer is not None
    items = [
        Item(id=f"p{at}", domain="A", prompt=f"q{at}", answer=answer, verifier="exact", data=data)
        for at, answer in enumerate(expected)
    ]
    prompts = encode_prompts(policy.tokenizer, [item.prompt for item in items])
    flat = [text for group in texts for text in group]
    rows = [[*policy.tokenizer.encode(text, add_special_tokens=False), policy.eos_ids[0]] for text in flat]
    count = sum(map(len, rows))
    return new_batch(
        [Prompt(item, tuple(ids)) for item, ids in zip(items, prompts, strict=True)],
        flat,
        group=torch.tensor([at for at, group in enumerate(texts) for _ in group]),
        lengths=torch.tensor([len(row) for row in rows]),
        finished=torch.ones(len(flat), dtype=torch.bool),
        tokens=torch.tensor([token for row in rows for token in row]),
        old_logprobs=torch.zeros(count),
        entropies=torch.zeros(count),
    )


def probabilities(policy: Policy, before: str, after: str) -> Tensor:
    """Return the probability of each token of `after`, by one plain pass over all logits."""
    assert policy.tokenizer is not None
    first, second = (policy.tokenizer.encode(part, add_special_tokens=False) for part in (before, after))
    with torch.no_grad():
        packed = Packed.from_sequences([first + second], keep_last=True)
        chances = torch.softmax(policy.logits(policy.hidden(packed)), -1)
    return torch.stack([chances[len(first) - 1 + at, token] for at, token in enumerate(second)])


TEXTS = [["<think>ab</think><answer>7", "<answer>x<answer>12", "no tag"], ["<think>c<answer>", "<answer>31"]]
BEFORE = [["<think>ab</think><answer>", "<answer>x<answer>", None], ["<think>c<answer>", "<answer>"]]
REFERENCES = ["12", "345"]


@pytest.mark.parametrize("max_tokens", [1000, 30])
@pytest.mark.parametrize(("aggregate", "without"), [("mean", "trained"), ("product", "start"), ("mean", "none")])
def test_reference_probability_is_a_difference_of_plain_passes(
    policy: Policy, aggregate: str, without: str, max_tokens: int
) -> None:
    start, batch = policy_of(3), written(policy, TEXTS, REFERENCES)
    policies = Policies(policy, Path("unused"), dtype="float32")
    policies.__dict__["start"] = start
    now = context(collector=collector(policy, max_tokens), policies=policies)

    def join(chances: Tensor) -> float:
        return float(chances.mean() if aggregate == "mean" else chances.prod())

    expected = []
    for group, reference in enumerate(REFERENCES):
        bare = 0.0
        if without != "none":
            one = policy if without == "trained" else start
            bare = join(probabilities(one, f"q{group}\n<answer>", reference))
        for before in BEFORE[group]:
            found = 0.0 if before is None else join(probabilities(policy, f"q{group}\n{before}", reference))
            expected.append(max(0.0, found - bare))
    operator_ = operator("reward", "reference_probability", aggregate=aggregate, without=without)
    assert near(operator_(batch, now), expected, 1e-6)
    assert any(expected) and now.metrics["reference_probability"] > 0
    if without == "start":  # remembered: the start is not asked again
        policies.__dict__["start"] = None
        again = context(collector=collector(policy, max_tokens), policies=policies, memory=now.memory)
        assert near(operator_(batch, again), expected, 1e-6)


def test_a_likelihood_reward_costs_one_further_pass(policy: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    original = Policy.target_logprobs

    def counted(self: Policy, packed: Packed, **options: Any) -> Any:
        calls.append(int(packed.tokens.numel()))
        return original(self, packed, **options)

    monkeypatch.setattr(type(policy), "target_logprobs", counted)
    batch = written(policy, TEXTS, REFERENCES)
    now = context(collector=collector(policy, 1000), policies=Policies(policy, Path("unused"), dtype="float32"))
    operator("reward", "reference_probability", without="trained")(batch, now)
    assert len(calls) == 1


def test_a_reference_is_needed(policy: Policy) -> None:
    now = context(collector=collector(policy))
    with pytest.raises(InputError, match="no reference answer"):
        operator("reward", "reference_probability")(written(policy, [["a"]], [""]), now)


def test_thoughts_end_at_the_last_opening_tag(policy: Policy) -> None:
    batch, made = written(policy, TEXTS, REFERENCES), collector(policy)
    flat = [before for group in BEFORE for before in group]
    assert thoughts_of(batch, made, "answer") == [None if text is None else made.encode(text) for text in flat]


def test_self_certainty_is_the_divergence_from_a_uniform_guess(policy: Policy) -> None:
    batch = written(policy, TEXTS, REFERENCES)
    found = operator("reward", "self_certainty")(batch, context(collector=collector(policy)))
    expected = []
    for row, group in zip(batch.tokens.split(batch.lengths.tolist()), batch.group.tolist(), strict=True):
        prompt = list(batch.prompts[group].tokens)
        with torch.no_grad():
            packed = Packed.from_sequences([prompt + row.tolist()], keep_last=True)
            logprobs = torch.log_softmax(policy.logits(policy.hidden(packed)).double(), -1)
        uniform = torch.full((logprobs.shape[1],), 1 / logprobs.shape[1], dtype=torch.float64)
        divergence = (uniform * (uniform.log() - logprobs)).sum(-1)[len(prompt) - 1 : -1]
        expected.append(float(divergence.mean()))
    assert near(found, expected, 1e-4) and min(expected) > 0


def test_majority_vote() -> None:
    texts = ["<answer>7", "<answer> 7 ", "<answer>8", "7", "<answer>", "so <answer>7</answer>"]
    now = context()
    assert operator("reward", "majority_vote")(answers(texts, "8"), now).tolist() == [1, 1, 0, 0, 0, 1]
    assert now.metrics == {"majority_share": 0.75}
    assert reward("majority_vote", answers(["a", "b", "b", ""]), tag=None).tolist() == [0, 1, 1, 0]
    assert reward("majority_vote", answers(["<answer>a", "<answer>b"])).tolist() == [1, 0]  # a tie: the first one
    assert reward("majority_vote", answers(["x", "y"])).tolist() == [0, 0]


@given(st.lists(st.sampled_from("abc "), min_size=1, max_size=9))
def test_the_majority_is_as_large_as_any_vote(votes: list[str]) -> None:
    found = reward("majority_vote", answers([f"<answer>{vote}" for vote in votes])).tolist()
    counts = Counter(vote for vote in votes if vote.strip())
    assert sum(found) == max(counts.values(), default=0)
    assert len({vote for vote, one in zip(votes, found, strict=True) if one}) <= 1


class Asked(Collector):
    """A collector whose policy answers as scripted: the letter at which an option stands."""

    def script(self, wish: str | None, options: int) -> None:
        self.wish, self.options = wish, options

    def ask(self, contexts: Sequence[Sequence[int]], **given: Any) -> list[list[str]]:
        assert self.policy.tokenizer is not None
        found = []
        for ids in contexts:
            text = self.policy.tokenizer.decode(list(ids))
            shown = dict(reversed(pair.split(":")) for pair in text.partition("<think>")[0].split() if ":" in pair)
            found.append([shown[self.wish] if self.wish else "?"])
        return found


def test_reanswer_consistency_follows_the_option_and_not_the_letter(policy: Policy) -> None:
    made = Asked(
        policy,
        context().settings,
        generator=torch.Generator(),
        ledger=PassRates(),
        reward=lambda batch: batch.rewards,
        max_tokens=99,
    )
    texts = [["<think>11</think><answer>B", "<think>11</think><answer>A", "<answer>B", "B"]]
    batch = written(policy, texts, ["B"], options=["9", "11", "12"])
    item = batch.prompts[0].item.model_copy(update={"prompt": "4 + 7? A:9 B:11 C:12"})
    batch = replace(
        batch, outcomes=torch.tensor([RIGHT, WRONG, RIGHT, RIGHT]), prompts=(replace(batch.prompts[0], item=item),)
    )
    for wish, expected in (("11", [1, 0, 1, 0.5]), ("9", [0.5, 0, 0.5, 0.5]), (None, [0.5, 0, 0.5, 0.5])):
        made.script(wish, 3)
        now = context(collector=made)
        assert operator("reward", "reanswer_consistency")(batch, now).tolist() == expected
    made.script("9", 3)
    now = context(collector=made)
    operator("reward", "reanswer_consistency", wrong=-1)(batch, now)
    assert now.metrics["reanswer_consistency"] == 0.25  # the wrong answer is consistent
    with pytest.raises(InputError, match="item p0 needs"):
        operator("reward", "reanswer_consistency")(written(policy, [["<answer>A"]], ["A"], options=["x"]), now)
    with pytest.raises(InputError, match="the prompt of p0 shows no option behind its letter"):
        operator("reward", "reanswer_consistency")(written(policy, [["<answer>A"]], ["A"], options=["x", "y"]), now)


def test_questions_are_answered_greedily_once_each(policy: Policy) -> None:
    made = collector(policy)
    ids = [made.encode("q1"), made.encode("q2"), made.encode("q1")]
    first = made.ask(ids, max_new_tokens=3)
    assert first[0] == first[2] and made.num_probes == 2 and 0 < made.num_tokens <= 6
    assert made.ask(ids, max_new_tokens=3) == first
    assert [len(texts) for texts in made.ask(ids[:2], max_new_tokens=2, temperature=1.0, num_samples=3)] == [3, 3]
    assert made.ask([], max_new_tokens=3) == []
    assert "p0" not in made._ledger._by_id


def test_segment_match() -> None:
    texts = ["<answer>the sum is 11", "<answer>The sum", "<answer>the sum is 11. then add", "<answer>is 11", "<answer>"]
    batch = answers(texts, "the sum is 11.", following=["the sum is 11.", "then add 4.", "done."])
    # F1: 3 of 4 words agree ("11" is not "11."), .75; "The sum" .67; 4 of 6 and of 4, .8
    assert reward("segment_match", batch, f1=0.7).tolist() == [1, 1, 1, 0, 0]
    assert reward("segment_match", batch).tolist() == [0, 1, 1, 0, 0]
    assert reward("segment_match", batch, prefix=False, f1=0.7).tolist() == [1, 0, 1, 0, 0]
    assert reward("segment_match", batch, min_words=3).tolist() == [0, 0, 1, 0, 0]


def test_ema_spread_follows_the_release() -> None:
    """Average from step 6 (its mean up to step 11), then moved; groups below the threshold are replaced."""
    spreads = {number: number / 10 for number in range(1, 13)}

    def drawn(*spread: float) -> Batch:
        pairs = [[0.0, value * math.sqrt(2)] for value in spread]  # standard deviation (ddof 1): value
        return batch_of(pairs)

    memory: dict[str, Any] = {}
    asked: list[int] = []

    def more(count: int) -> Batch:
        asked.append(count)
        return drawn(*[5.0] * count)

    bound = operator("filter", "ema_spread", factor=1.0, decay=0.9)
    for number in range(1, 11):
        assert bound(drawn(spreads[number], spreads[number]), more, context(number - 1, memory=memory)).num_prompts == 2
    assert memory["means"] == pytest.approx([0.6, 0.7, 0.8, 0.9, 1.0])
    now = context(10, memory=memory)  # the average begins at .8
    kept = bound(drawn(0.79, 0.81), more, now)
    assert now.metrics["spread_threshold"] == pytest.approx(0.8)
    assert kept.num_prompts == 2 and asked == [2]  # 1 of 2 kept: 1 / .5
    mean = (0.79 + 0.81 + 5 + 5) / 4
    now = context(11, memory=memory)
    assert bound(drawn(9.0, 9.0), more, now).num_prompts == 2
    assert now.metrics["spread_threshold"] == pytest.approx(0.9 * 0.8 + 0.1 * mean)
    assert asked == [2]
