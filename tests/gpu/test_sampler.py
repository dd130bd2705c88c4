"""Drawing: the native sampler against transformers, and the engine interface with a stand-in engine."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from components.modeling.generation.engine.engine_process import EngineProcess
from components.modeling.generation.engine.engine_sampler import EngineSampler
from components.modeling.generation.generate import Samples
from components.modeling.generation.sampler import NativeSampler
from components.modeling.generation.sampling_config import SamplingConfig
from components.modeling.loading.load import load_policy
from tests.gpu.device import DEVICE, sized
from tests.gpu.models import token_rows
from tests.gpu.stand_in_engine import TARGET
from tests.modeling import decoder_models

pytestmark = pytest.mark.gpu

PROMPTS = token_rows([5, 30, 1, 17], decoder_models.VOCAB, seed=1)
LENGTH = sized(64, 12)
GAP = {"float32": 1e-3, "bfloat16": 0.15}
"""Largest difference in nats of one token's log-probability; the mean's bound is a tenth."""


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def scored(folder: Path, samples: Samples, dtype: str, temperature: float) -> list[torch.Tensor]:
    """Return each response's log-probabilities by a whole pass of transformers."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype)).to(DEVICE)
    found = []
    for response, prompt in zip(samples.responses(), samples.prompt_index.tolist(), strict=True):
        row = [*PROMPTS[prompt], *response]
        with torch.inference_mode():
            logits = model(torch.tensor([row], device=DEVICE)).logits[0, len(PROMPTS[prompt]) - 1 : -1].float()
        wanted = torch.tensor(response, device=DEVICE).unsqueeze(-1)
        found.append(torch.log_softmax(logits / temperature, -1).gather(-1, wanted).squeeze(-1).cpu())
    return found


@pytest.mark.parametrize("kind", ["llama-gqa", "qwen3", "gemma3", "phi3"])
def test_greedy_draws_are_those_of_transformers(kind: str, tmp_path: Path) -> None:
    decoder_models.save(kind, tmp_path)
    policy = load_policy(tmp_path, device=DEVICE)
    greedy = SamplingConfig(max_new_tokens=LENGTH, temperature=0.0)
    ours = NativeSampler(policy).sample(PROMPTS, greedy, generator=seeded()).responses()
    model = AutoModelForCausalLM.from_pretrained(tmp_path).to(DEVICE)
    for prompt, response in zip(PROMPTS, ours, strict=True):
        given = torch.tensor([prompt], device=DEVICE)
        made = model.generate(given, attention_mask=torch.ones_like(given), max_new_tokens=LENGTH, do_sample=False)
        assert made[0, len(prompt) :].tolist() == response


@pytest.mark.parametrize("dtype", list(GAP))
@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_log_probabilities_are_those_of_transformers(dtype: str, temperature: float, tmp_path: Path) -> None:
    decoder_models.save("llama-gqa", tmp_path)
    policy = load_policy(tmp_path, device=DEVICE, dtype=dtype)
    config = SamplingConfig(num_samples=4, max_new_tokens=LENGTH, temperature=temperature)
    samples = NativeSampler(policy).sample(PROMPTS, config, generator=seeded())
    mine = [row[:n].float().cpu() for row, n in zip(samples.logprobs, samples.lengths.tolist(), strict=True)]
    gaps = torch.cat([(a - b).abs() for a, b in zip(mine, scored(tmp_path, samples, dtype, temperature), strict=True)])
    assert float(gaps.max()) < GAP[dtype] and float(gaps.mean()) < GAP[dtype] / 10


def test_draws_follow_the_distribution(tmp_path: Path) -> None:
    """The first token of 4,000 draws, against the probabilities that transformers gives: chi-squared, 39 degrees."""
    decoder_models.save("llama", tmp_path)
    policy = load_policy(tmp_path, device=DEVICE)
    config = SamplingConfig(num_samples=4000, max_new_tokens=1)
    samples = NativeSampler(policy).sample(PROMPTS[:1], config, generator=seeded())
    counts = torch.bincount(samples.tokens[:, 0].cpu(), minlength=decoder_models.VOCAB).double()
    with torch.inference_mode():
        logits = AutoModelForCausalLM.from_pretrained(tmp_path)(torch.tensor([PROMPTS[0]])).logits[0, -1]
    expected = 4000 * torch.softmax(logits.double(), -1)
    assert float(((counts - expected) ** 2 / expected).sum()) < 85  # exceeded once in 30,000 seeds


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineSampler]:
    folder = tmp_path_factory.mktemp("model")
    decoder_models.save("llama-gqa", folder)
    environment = {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}

    def start() -> EngineProcess:
        return EngineProcess(TARGET, python=sys.executable, environment={**environment, "OMP_NUM_THREADS": "1"})

    policy = load_policy(folder, device=DEVICE, dtype="bfloat16")
    with EngineSampler(policy, start, {}) as sampler:
        yield sampler


def test_an_engine_draws_from_the_weights_that_it_was_given_last(engine: EngineSampler) -> None:
    config = SamplingConfig(num_samples=3, max_new_tokens=8)
    pid = None
    for seed in (1, 2):
        with torch.no_grad():
            for _, weight in engine.policy.trainable():
                noise = torch.randn(weight.shape, generator=seeded(seed)).to(weight.device, weight.dtype)
                weight.add_(0.1 * noise)
        engine.load_weights()
        samples = engine.sample(PROMPTS, config, generator=seeded())
        assert samples.policy_logprobs is not None
        real = torch.arange(samples.tokens.shape[1]) < samples.lengths.cpu().unsqueeze(-1)
        gap = (samples.logprobs - samples.policy_logprobs).cpu()[real].abs()
        assert float(gap.mean()) < GAP["bfloat16"] / 3
        assert pid in (None, engine.pid)  # the same process took the new weights
        pid = engine.pid
    assert engine.timings()  # how long it took, and by which way


def test_the_same_seeds_draw_the_same_from_an_engine(engine: EngineSampler) -> None:
    config = SamplingConfig(num_samples=2, max_new_tokens=6)
    first, again, other = (engine.sample(PROMPTS, config, generator=seeded(n)).responses() for n in (5, 5, 6))
    assert first == again != other
