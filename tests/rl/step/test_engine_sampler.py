"""The loop on a sampler in another process: the gap to the policy is measured at every step, and corrected."""

from __future__ import annotations

import string
from pathlib import Path

import pytest
import torch

from components.contract.errors import InputError
from components.modeling.generation.engine.engine_sampler import EngineSampler
from components.modeling.generation.generate import Samples
from components.modeling.loading.load import load_policy, new_policy
from components.modeling.models.model_config import ModelConfig
from components.modeling.models.policy import Policy
from components.modeling.text.prompting import encode_prompts
from components.modeling.text.tokenizer import train_tokenizer
from components.modeling.text.tokenizer_config import TokenizerConfig
from components.rl.batch.batch import Prompt, batch_of_samples
from components.rl.params import RLParams
from components.rl.run import build_loop
from components.rl.step.loop import Loop
from components.rl.step.sampler_gap import SamplerGap
from components.tasks.item import Item
from tests.modeling.generation.engines import FORGETFUL, NATIVE, PLAIN, engine_sampler
from tests.rl.build import context, operator, prompt

GAP = ("sampler_gap_mean", "sampler_gap_max", "sampler_gap_k3")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    tokenizer = train_tokenizer([string.ascii_letters], {}, TokenizerConfig(phrases=False))
    new_policy(ModelConfig(width=16, layers=1, heads=2, mlp_width=24), tokenizer=tokenizer, seed=0).save(folder)
    return folder


def loop_of(folder: Path, policy: Policy, sampler: EngineSampler | None, **given: object) -> Loop:
    """A loop over prompts that half of the letters answer."""
    letters = {"aliases": list(string.ascii_lowercase[:13])}
    items = [
        Item(id=f"p{i}", domain="A", prompt=f"letter {i}", answer="x", verifier="exact", data=letters) for i in range(4)
    ]
    tokens = encode_prompts(policy.tokenizer, [item.prompt for item in items])
    pool = [Prompt(item, tuple(ids)) for item, ids in zip(items, tokens, strict=True)]
    base = {"method": "dr-grpo", "steps": 6, "prompts_per_step": 4, "group_size": 8, "max_new_tokens": 1}
    optimizer = {"optimizer": {"peak_learning_rate": 3e-2, "warmup_steps": 0}, "start_kl_every": 0}
    params = RLParams.model_validate(base | optimizer | given)
    return build_loop(params, policy, pool, start=folder, seed=0, sampler=sampler)


def samples(drawn: list[float], own: list[float] | None, *, forced: int = 0) -> Samples:
    """One response per prompt of one token each; the first `forced` were forced."""
    column = torch.tensor(drawn).unsqueeze(1)
    return Samples(
        tokens=torch.full(column.shape, 5),
        lengths=torch.ones(len(drawn), dtype=torch.long),
        logprobs=column,
        entropies=torch.zeros(column.shape),
        prompt_index=torch.arange(len(drawn)),
        finished=torch.ones(len(drawn), dtype=torch.bool),
        sampled=(torch.arange(len(drawn)) >= forced).unsqueeze(1),
        num_samples=1,
        policy_logprobs=None if own is None else torch.tensor(own).unsqueeze(1),
    )


def test_the_gap_by_hand() -> None:
    """Differences 0.5 and -1 of the sampled tokens: k3 = exp(-0.5) - 1 + 0.5 and exp(1) - 1 - 1."""
    gap = SamplerGap()
    assert gap.metrics() == {}
    gap.add(samples([-9.0], None))
    assert gap.metrics() == {}
    gap.add(samples([-9.0, -1.0], [-1.0, -1.5], forced=1))
    gap.add(samples([-2.0], [-1.0]))
    found = gap.metrics()
    assert found["sampler_gap_mean"] == pytest.approx(0.75)
    assert found["sampler_gap_max"] == pytest.approx(1.0)
    assert found["sampler_gap_k3"] == pytest.approx((0.1065307 + 0.7182818) / 2)


def test_a_batch_has_the_policys_logprobs_beside_those_of_what_drew() -> None:
    """Truncated importance weights are exp(old - behaviour), at most 2."""
    batch = batch_of_samples([prompt(0), prompt(1)], samples([-1.0, -2.0], [-1.5, -1.0]), ["x", "y"])
    assert batch.behaviour_logprobs.tolist() == [-1.0, -2.0] and batch.old_logprobs.tolist() == [-1.5, -1.0]
    weighted = operator("advantage", "truncated_importance", cap=2.0)(batch.with_advantages(torch.ones(2)), context())
    assert weighted.tolist() == pytest.approx([0.6065307, 2.0])
    own = batch_of_samples([prompt(0), prompt(1)], samples([-1.0, -2.0], None), ["x", "y"])
    assert torch.equal(own.old_logprobs, own.behaviour_logprobs)


def test_an_engine_learns_with_no_gap(folder: Path) -> None:
    policy = load_policy(folder)
    with engine_sampler(policy, NATIVE) as sampler:
        loop = loop_of(folder, policy, sampler)
        rows = [loop.step() for _ in range(6)]
    assert all(0 <= row[name] < 1e-4 for row in rows for name in GAP)
    assert all(row["ratio_max"] == pytest.approx(1, abs=1e-4) for row in rows if row["num_updates"])
    assert rows[-1]["pass_rate"] > rows[0]["pass_rate"] + 0.2
    native = load_policy(folder)
    assert not set(GAP) & set(loop_of(folder, native, None).step())


def test_an_engine_that_is_never_updated_shows_and_ratios_stay_the_trainers(folder: Path) -> None:
    policy = load_policy(folder)
    with engine_sampler(policy, FORGETFUL) as sampler:
        loop = loop_of(folder, policy, sampler, advantages=["group_mean", "truncated_importance"])
        rows = [loop.step() for _ in range(4)]
    assert rows[0]["sampler_gap_max"] < 1e-4
    assert all(row["sampler_gap_mean"] > 0.1 for row in rows[2:])
    assert all(row["ratio_max"] == pytest.approx(1, abs=1e-4) for row in rows if row["num_updates"])


def test_operators_that_an_engine_cannot_serve_are_named(folder: Path) -> None:
    policy = load_policy(folder)
    sampler = engine_sampler(policy, PLAIN)
    with pytest.raises(InputError, match="annealed_group changes logits before each token, which vLLM cannot do"):
        loop_of(folder, policy, sampler, rollout="annealed_group")
    loop_of(folder, policy, None, rollout="annealed_group")
