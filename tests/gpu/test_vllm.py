"""vLLM as the sampler on a GPU that it shares with the trainer: weights, log-probabilities, sleep."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from components.contract.job import Resources
from components.modeling.generation.choose import open_sampler
from components.modeling.generation.sampler import NativeSampler, Sampler
from components.modeling.generation.sampling_config import SamplingConfig
from tests.gpu.device import ON_GPU, gpu_only, needs
from tests.gpu.models import qwen, random_policy, token_rows

pytestmark = [pytest.mark.gpu, needs("vllm"), gpu_only("vLLM's CUDA build")]

PROMPT_LENGTHS = [5, 40, 200, 17]


@pytest.fixture(scope="module")
def sampler() -> Iterator[Sampler]:
    assert ON_GPU
    memory = torch.cuda.get_device_properties(0).total_memory / 2**30
    policy = random_policy({**qwen("0.5B"), "eos_token_id": None})
    with open_sampler(policy, Resources(gpus=1, gpu_memory_gib=memory, sampler="vllm", memory_gib=64)) as made:
        yield made


def prompts(sampler: Sampler) -> list[list[int]]:
    return token_rows(PROMPT_LENGTHS, sampler.policy.vocab_size)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_log_probabilities_follow_every_update(sampler: Sampler) -> None:
    for seed in range(3):
        with torch.no_grad():
            for _, weight in sampler.policy.trainable():
                weight.add_(0.02 * torch.randn_like(weight))
        sampler.load_weights()
        config = SamplingConfig(num_samples=4, max_new_tokens=64)
        samples = sampler.sample(prompts(sampler), config, generator=seeded(seed))
        assert samples.policy_logprobs is not None
        gap = (samples.logprobs - samples.policy_logprobs).abs()
        assert float(gap.mean()) < 0.05


def test_weights_stay_on_the_gpu(sampler: Sampler) -> None:
    told = sampler.timings()
    assert told.get("weight_syncs_by_cuda_ipc", 0) >= 1, told
    assert told["weight_sync_seconds"] < 2.0


def test_greedy_agrees_for_the_most_part_with_the_native_sampler(sampler: Sampler) -> None:
    """bfloat16 rounds otherwise in other kernels, and random weights have many near ties."""
    greedy = SamplingConfig(max_new_tokens=16, temperature=0.0)
    theirs = sampler.sample(prompts(sampler), greedy, generator=seeded()).responses()
    ours = NativeSampler(sampler.policy).sample(prompts(sampler), greedy, generator=seeded()).responses()
    assert sum(a[0] == b[0] for a, b in zip(ours, theirs, strict=True)) >= len(ours) - 1


def test_it_gives_its_memory_back_while_the_trainer_works(sampler: Sampler) -> None:
    sampler.load_weights()
    sampler.sample(prompts(sampler), SamplingConfig(max_new_tokens=4), generator=seeded())
    before = torch.cuda.mem_get_info()[0]
    sampler.rest()
    freed = torch.cuda.mem_get_info()[0] - before
    assert freed > 0.3 * torch.cuda.get_device_properties(0).total_memory
    sampler.load_weights()
    assert sampler.sample(prompts(sampler), SamplingConfig(max_new_tokens=4), generator=seeded()).responses()
