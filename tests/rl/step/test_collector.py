"""The collector: what drew a token, what is given, what is counted."""

from __future__ import annotations

import string
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from components.contract.errors import InputError
from components.modeling.generation.sampling import Step
from components.modeling.loading.load import new_policy
from components.modeling.models.model_config import ModelConfig
from components.modeling.models.policy import Policy
from components.modeling.text.prompting import encode_prompts
from components.modeling.text.tokenizer import train_tokenizer
from components.modeling.text.tokenizer_config import TokenizerConfig
from components.rl.batch.batch import RIGHT, WRONG, Prompt
from components.rl.batch.joining import regroup
from components.rl.operators.rewards.score import ScoreConfig, score
from components.rl.step.collector import Collector
from components.rl.step.ledger import PassRates
from components.rl.step.scoring import frozen_entropies, frozen_logprobs
from components.rl.step.settings import StepSettings
from components.tasks.item import Item

LIMIT = 4


@pytest.fixture(scope="module")
def policy() -> Policy:
    tokenizer = train_tokenizer([string.ascii_letters], {}, TokenizerConfig(phrases=False))
    made = new_policy(ModelConfig(width=16, layers=1, heads=2, mlp_width=24), tokenizer=tokenizer, seed=0)
    with torch.no_grad():
        made.module.embedding.mul_(20)  # far from uniform, so that temperatures differ
    return made


@pytest.fixture
def pool(policy: Policy) -> list[Prompt]:
    items = [Item(id=f"p{i}", domain="A", prompt=f"letter {i}", answer="x", verifier="exact") for i in range(3)]
    tokens = encode_prompts(policy.tokenizer, [item.prompt for item in items])
    return [Prompt(item, tuple(ids)) for item, ids in zip(items, tokens, strict=True)]


def collector(policy: Policy, *, temperature: float = 0.7, seed: int = 0) -> Collector:
    settings = StepSettings(prompts_per_step=3, group_size=4, max_new_tokens=LIMIT, temperature=temperature)
    return Collector(
        policy,
        settings,
        generator=torch.Generator().manual_seed(seed),
        ledger=PassRates(),
        reward=lambda batch: (batch.outcomes == RIGHT).float(),
        max_tokens=50,
    )


def close(first: Tensor, second: Tensor) -> bool:
    return torch.allclose(first, second, atol=1e-5)


def test_a_plain_draw_is_of_the_trained_policy_at_the_steps_temperature(policy: Policy, pool: list[Prompt]) -> None:
    made = collector(policy)
    batch = made.draw(pool, 4)
    assert close(batch.old_logprobs, frozen_logprobs(policy, batch, temperature=0.7, max_tokens=99))
    assert torch.equal(batch.behaviour_logprobs, batch.old_logprobs) and not bool(batch.external.any())
    assert close(batch.entropies, frozen_entropies(policy, batch, max_tokens=99))
    assert close(made.rescore(batch).old_logprobs, batch.old_logprobs)


def test_another_temperature_is_what_drew_and_rescore_gives_the_policys_own(policy: Policy, pool: list[Prompt]) -> None:
    made = collector(policy)
    hot = made.draw(pool, 4, temperature=2.0)
    assert close(hot.behaviour_logprobs, frozen_logprobs(policy, hot, temperature=2.0, max_tokens=99))
    again = made.rescore(hot)
    assert torch.equal(again.behaviour_logprobs, hot.behaviour_logprobs)
    assert close(again.old_logprobs, frozen_logprobs(policy, hot, temperature=0.7, max_tokens=99))
    assert not close(again.old_logprobs, again.behaviour_logprobs)


def test_a_processor_changes_what_is_drawn(policy: Policy, pool: list[Prompt]) -> None:
    def only(token: int) -> object:
        def process(logits: Tensor, step: Step) -> Tensor:
            return torch.full_like(logits, -torch.inf).index_fill(1, torch.tensor([token]), 0.0)

        return process

    batch = collector(policy).draw(pool, 2, processor=only(7))
    assert set(batch.tokens.tolist()) == {7} and batch.behaviour_logprobs.tolist() == [0.0] * batch.num_tokens


def test_prefixes_open_the_responses_and_are_marked(policy: Policy, pool: list[Prompt]) -> None:
    prefixes = [[5, 6], [], [7]]
    batch = collector(policy).draw(pool, 1, prefixes=prefixes)
    for prefix, row, drawn in zip(
        prefixes,
        batch.tokens.split(batch.lengths.tolist()),
        batch.extras["drawn_n"].split(batch.lengths.tolist()),
        strict=True,
    ):
        assert row[: len(prefix)].tolist() == prefix
        assert drawn.tolist() == [False] * len(prefix) + [True] * (len(row) - len(prefix))
    assert close(batch.old_logprobs, frozen_logprobs(policy, batch, temperature=0.7, max_tokens=99))


def test_another_policy_or_generator_leaves_the_runs_own_alone(policy: Policy, pool: list[Prompt]) -> None:
    plain = collector(policy).draw(pool, 4)
    made = collector(policy)
    aside = made.draw(pool, 4, generator=torch.Generator().manual_seed(5))
    assert torch.equal(made.draw(pool, 4).tokens, plain.tokens) and aside.texts != plain.texts
    other = policy.copy()
    assert bool(made.draw(pool, 2, policy=other).external.all())
    assert not bool(made.draw(pool, 2, policy=policy).external.any())


def test_given_responses_are_laid_out_as_training_does(policy: Policy, pool: list[Prompt]) -> None:
    made, end = collector(policy), policy.eos_ids[0]
    text = made.responses(pool[:2], ["x", "abcdef"])
    assert text.texts[0] == "x" and text.tokens[:2].tolist() == [*encode_letters(policy, "x"), end]
    assert text.lengths.tolist() == [2, LIMIT] and text.finished.tolist() == [True, False]
    assert bool(text.external.all())
    assert close(text.old_logprobs, frozen_logprobs(policy, text, temperature=0.7, max_tokens=99))
    assert close(text.entropies, frozen_entropies(policy, text, max_tokens=99))
    tokens = made.responses(pool[:1], [encode_letters(policy, "x")], external=False)
    assert torch.equal(tokens.tokens, text.tokens[:2]) and not bool(tokens.external.any())


def test_turns_of_a_conversation_are_no_response(policy: Policy, pool: list[Prompt]) -> None:
    with pytest.raises(InputError, match="item p0 was given the turns of a conversation, where one text is needed"):
        collector(policy).responses(pool[:1], [("x", "y")])


def encode_letters(policy: Policy, letters: str) -> list[int]:
    assert policy.tokenizer is not None
    return [policy.tokenizer.convert_tokens_to_ids(letter) for letter in letters]


def test_given_responses_are_verified_and_recorded_but_not_in_the_ledger(policy: Policy, pool: list[Prompt]) -> None:
    made = collector(policy)
    given = made.score(made.responses(pool[:2], ["x", "y"]))
    assert given.rewards.tolist() == [1.0, 0.0]
    assert len(made.seen) == 1 and len(made._ledger) == 0
    own = made.score(made.draw(pool[:2], 3))
    assert sum(entry.num_samples for entry in made._ledger) == 6
    together = regroup([own, given])
    assert together.group_sizes.tolist() == [4] * 8
    assert together.external.tolist() == [False, False, False, True] * 2


def test_probes_are_counted_but_not_seen(policy: Policy, pool: list[Prompt]) -> None:
    made = collector(policy)
    rates = made.probe(pool, 8)
    assert made.num_probes == 24 and not made.seen
    counted = [made._ledger.get(prompt.item.id) for prompt in pool]
    assert [entry.pass_rate for entry in counted if entry] == rates.tolist()
    assert all(visit.reward_sum == 0.0 for visit in made._ledger.visits(since_step=0))


def test_the_ledger_keeps_rewards_of_each_visit(policy: Policy, pool: list[Prompt], tmp_path: Path) -> None:
    made = collector(policy)
    made._ledger.step = 4
    batch = made.score(made.draw(pool, 6))
    for visit in made._ledger.visits(since_step=4):
        own = batch.rewards[batch.group == [p.item.id for p in pool].index(visit.prompt_id)]
        assert (visit.reward_sum, visit.reward_squares) == (float(own.sum()), float(own.square().sum()))
    assert made._ledger.visits(since_step=5) == []
    assert len(made._ledger.visits(prompt_id="p1")) == 1


def test_the_grade_of_verification_is_a_reward(policy: Policy, pool: list[Prompt]) -> None:
    """Program tests give partial credit; a verifier without it gives 1 or 0."""
    tests = [{"args": [n], "expected": n} for n in range(4)]
    graded = Item(
        id="g", domain="A", prompt="letter 0", answer="", verifier="code_tests",
        data={"tests": tests, "entry_point": "f"},
    )  # fmt: skip
    prompts = [pool[0], replace(pool[0], item=graded)]
    drawer = collector(policy)
    batch = replace(drawer.responses(prompts, ["x", "x"]), texts=("x", "def f(n): return min(n, 1)"))
    scored = drawer.score(batch)
    context = SimpleNamespace(collector=drawer)
    assert score(scored, context, config=ScoreConfig()).tolist() == [1.0, 0.5]
    assert scored.outcomes.tolist() == [RIGHT, WRONG]
