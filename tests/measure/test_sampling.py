"""Blocks of items, drawn ahead by an engine: the same outcomes whatever is begun before, and no pass of the policy."""

from __future__ import annotations

import string
from collections.abc import Iterator
from pathlib import Path

import pytest

from components.measure.sampling import blocks, sample_and_verify, sample_blocks
from components.modeling.generation.engine.engine_sampler import EngineSampler
from components.modeling.generation.sampler import NativeSampler
from components.modeling.generation.sampling_config import SamplingConfig
from components.modeling.loading.load import load_policy, new_policy
from components.modeling.models.model_config import ModelConfig
from components.modeling.models.policy import Policy
from components.modeling.text.tokenizer import train_tokenizer
from components.modeling.text.tokenizer_config import TokenizerConfig
from components.tasks.item import Item
from tests.modeling.generation.engines import NATIVE, engine_process

SAMPLING = SamplingConfig(num_samples=3, max_new_tokens=2, max_batch_tokens=12)
"""Two items a block."""
ITEMS = [
    Item(id=f"p{i}", domain="A", prompt=f"letter {i}", answer="x", verifier="exact", data={"aliases": ["a", "b"]})
    for i in range(7)
]


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Policy:
    folder = tmp_path_factory.mktemp("model")
    tokenizer = train_tokenizer([string.ascii_letters], {}, TokenizerConfig(phrases=False))
    new_policy(ModelConfig(width=16, layers=1, heads=2, mlp_width=24), tokenizer=tokenizer, seed=0).save(folder)
    return load_policy(folder)


@pytest.fixture(scope="module")
def sampler(policy: Policy) -> Iterator[EngineSampler]:
    with EngineSampler(policy, lambda: engine_process(NATIVE), {"max_rows": 4}) as made:
        made.load_weights()
        yield made


def test_an_engine_has_further_blocks_while_one_is_verified(
    sampler: EngineSampler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows ahead are 8, and a block has 6: as one is given out, two more are with the engine."""
    assert sampler.rows_ahead == 8
    open_orders = []
    for found in sample_blocks(sampler, ((block, SAMPLING) for block in blocks(ITEMS, SAMPLING)), seed=3):
        open_orders.append((len(found), len(sampler._orders)))
    assert open_orders == [(2, 2), (2, 2), (2, 1), (1, 0)]


def test_outcomes_do_not_depend_on_what_is_begun_before(sampler: EngineSampler) -> None:
    ahead = sample_and_verify(sampler, ITEMS, SAMPLING, seed=3)
    alone = [one for block in blocks(ITEMS, SAMPLING) for one in sample_and_verify(sampler, block, SAMPLING, seed=3)]
    assert ahead == alone and len({outcome.responses for outcome in ahead}) > 3
    later = sample_blocks(sampler, ((block, SAMPLING) for block in list(blocks(ITEMS, SAMPLING))[2:]), seed=3)
    assert [one for found in later for one in found] == ahead[4:]  # as a stage goes on that was killed


def test_no_pass_of_the_policy_is_made_where_entropies_can_be_had_without(
    sampler: EngineSampler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mean of -log p over a response's tokens, exactly; at another temperature the policy has to tell."""
    wanted = sample_and_verify(sampler, ITEMS, SAMPLING.model_copy(update={"temperature": 0.5}), seed=3)
    assert all(entropy > 0 for outcome in wanted for entropy in outcome.entropies)

    def refused(*_: object, **__: object) -> None:
        raise AssertionError("a pass of the policy")

    monkeypatch.setattr(type(sampler.policy), "hidden", refused)
    monkeypatch.setattr(type(sampler.policy), "target_hidden", refused)
    for outcome in sample_and_verify(sampler, ITEMS, SAMPLING, seed=3):
        pairs = zip(outcome.logprobs, outcome.lengths, strict=True)
        assert outcome.entropies == pytest.approx([-logprob / length for logprob, length in pairs])


def test_the_estimate_of_the_entropy_is_unbiased(policy: Policy, sampler: EngineSampler, tmp_path: Path) -> None:
    many = SamplingConfig(num_samples=400, max_new_tokens=1, max_batch_tokens=10**6)
    drawn = sample_and_verify(sampler, ITEMS[:2], many, seed=1)
    own = sample_and_verify(NativeSampler(policy), ITEMS[:2], many, seed=1)
    for ours, theirs in zip(drawn, own, strict=True):
        assert sum(ours.entropies) / 400 == pytest.approx(sum(theirs.entropies) / 400, abs=0.1)


def test_the_native_sampler_draws_one_block_after_the_other(policy: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    native, events = NativeSampler(policy), []
    draw = native.sample
    monkeypatch.setattr(native, "sample", lambda *args, **kwargs: (events.append("draw"), draw(*args, **kwargs))[1])
    for _ in sample_blocks(native, ((block, SAMPLING) for block in blocks(ITEMS, SAMPLING)), seed=3):
        events.append("give")
    assert events == ["draw", "give"] * 4
