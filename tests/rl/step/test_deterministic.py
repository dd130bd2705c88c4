"""Steps of RL under `backend: {deterministic: true}`: the same bytes again, and on a CPU those of any other run."""

from __future__ import annotations

import string
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from components.contract.backends import Backends
from components.modeling.generation.generate import generate
from components.modeling.generation.sampling_config import SamplingConfig
from components.modeling.loading.load import load_policy, new_policy
from components.modeling.models.model_config import ModelConfig
from components.modeling.text.prompting import encode_prompts
from components.modeling.text.tokenizer import train_tokenizer
from components.modeling.text.tokenizer_config import TokenizerConfig
from components.runtime.system.determinism import deterministic_torch, set_environment
from tests.rl.step.test_sampler_gap import loop_of

ASKED = Backends(deterministic=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    tokenizer = train_tokenizer([string.ascii_letters], {}, TokenizerConfig(phrases=False))
    config = ModelConfig(width=32, layers=2, heads=4, kv_heads=2, mlp_width=48)
    new_policy(config, tokenizer=tokenizer, seed=0).save(folder)
    return folder


def repeating(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tell the libraries, which may start in this test."""
    environ: dict[str, str] = {}
    set_environment(ASKED, environ)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)


def after_two_steps(folder: Path, backends: Backends, *, device: str, backend: Any, dtype: str) -> dict[str, Tensor]:
    policy = load_policy(folder, backend=backend, dtype=dtype, device=device)
    with deterministic_torch(backends):
        loop = loop_of(folder, policy, method="lp-reg")
        for _ in range(2):
            loop.step()
    return {name: weight.detach().cpu() for name, weight in policy.trainable()}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("backend", ["native", "transformers"])
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_the_same_steps_give_the_same_bytes(
    device: str, backend: Any, dtype: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repeating(monkeypatch)
    what = {"device": device, "backend": backend, "dtype": dtype}
    first, again = (after_two_steps(folder, ASKED, **what) for _ in range(2))
    assert all(torch.equal(first[name], again[name]) for name in first)
    before = dict(load_policy(folder, backend=backend, dtype=dtype).trainable())
    assert any(not torch.equal(first[name], before[name]) for name in first)  # it has learned something
    if device == "cpu":
        plain = after_two_steps(folder, Backends(), **what)
        assert all(torch.equal(first[name], plain[name]) for name in first)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_the_same_seeds_draw_the_same_tokens(device: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repeating(monkeypatch)
    policy = load_policy(folder, device=device)
    prompts = encode_prompts(policy.tokenizer, ["letter 1", "2", "the letter 3"])
    config = SamplingConfig(num_samples=8, max_new_tokens=16, top_p=0.9, top_k=20)
    with deterministic_torch(ASKED):
        first, again = (generate(policy, prompts, config, generator=torch.Generator().manual_seed(1)) for _ in range(2))
    assert torch.equal(first.tokens, again.tokens) and torch.equal(first.logprobs, again.logprobs)
