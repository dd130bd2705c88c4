"""Matrices in 4 bits: values by hand, errors of normal weights, and QLoRA from load to save."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from components.modeling.generation.generate import generate
from components.modeling.generation.sampling_config import SamplingConfig
from components.modeling.loading.load import load_policy
from components.modeling.models.lora import LoraConfig
from components.modeling.native.native_policy import NativePolicy
from components.modeling.native.nf4 import BLOCK, LEVELS, PackedMatrix
from components.modeling.packing.packed import Packed
from tests.modeling import decoder_models as models

LORA = LoraConfig(rank=2, bits=4)
PROMPTS = models.token_lists([4, 7])
RESPONSES = [models.token_lists([5, 9], seed=2), models.token_lists([3], seed=3)]


def test_levels_are_kept_exactly_and_others_go_to_the_nearest() -> None:
    exact = 3.0 * torch.tensor([*LEVELS] * (BLOCK // 16))
    torch.testing.assert_close(PackedMatrix(exact.view(2, -1)).weight(), exact.view(2, -1), atol=1e-6, rtol=0)
    row = torch.zeros(BLOCK)
    row[:4] = torch.tensor([1.0, 0.05, 0.03, -0.8])  # between 0 and 0.0796; between -1 and -0.6962
    assert PackedMatrix(row.unsqueeze(0)).weight()[0, :4].tolist() == pytest.approx([1.0, LEVELS[8], 0.0, LEVELS[1]])


@pytest.mark.parametrize("shape", [(1, 1), (3, 43), (129, 64), (200, 100)])
def test_normal_weights_lose_a_tenth(shape: tuple[int, int]) -> None:
    weight = 0.02 * torch.randn(shape, generator=torch.Generator().manual_seed(0))
    found = PackedMatrix(weight).weight()
    assert found.shape == weight.shape
    assert float((found - weight).norm() / weight.norm()) < 0.11
    assert torch.equal(PackedMatrix(torch.zeros(shape)).weight(), torch.zeros(shape))


def test_four_bits_and_an_eighth_a_weight() -> None:
    packed = PackedMatrix(torch.randn(512, 512))
    bits = 8 * sum(buffer.nbytes for buffer in packed.buffers()) / 512**2
    assert bits == pytest.approx(4 + 8 / 64 + 32 / (64 * 256))
    assert not list(packed.parameters())
    before = packed.weight()
    assert torch.equal(packed.bfloat16().weight(), before)  # a cast of the module does not touch it


@pytest.mark.parametrize("kind", ["llama-gqa", "qwen2", "gemma2", "phi3"])
def test_adapters_train_on_packed_weights(kind: str, tmp_path: Path) -> None:
    """Values and gradients are those of adapters on the unpacked weights; what is saved is both together."""
    models.save(kind, tmp_path / "base")
    policy = load_policy(tmp_path / "base", lora=LORA)
    assert isinstance(policy, NativePolicy)
    names = {name for name, _ in policy.module.named_parameters()}
    assert not any(name.endswith(("qkv", "attention_out", "gate_up", "down")) for name in names)
    policy.save(tmp_path / "unpacked")
    plain = load_policy(tmp_path / "unpacked", lora=LORA.model_copy(update={"bits": None}))
    packed = Packed.from_groups(PROMPTS, RESPONSES)
    before = load_policy(tmp_path / "base").target_logprobs(packed).logprobs
    for each in (policy, plain):
        optimizer = torch.optim.SGD([p for _, p in each.trainable()], lr=0.3)
        for _ in range(2):
            optimizer.zero_grad()
            (-each.target_logprobs(packed).logprobs.mean()).backward()
            optimizer.step()
    ours, theirs = (each.target_logprobs(packed).logprobs for each in (policy, plain))
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)
    assert 1e-3 < (ours - before).abs().max() < 4.0
    policy.save(tmp_path / "trained")
    again = load_policy(tmp_path / "trained")
    torch.testing.assert_close(again.target_logprobs(packed).logprobs, ours, atol=2e-5, rtol=1e-5)
    config = SamplingConfig(num_samples=2, max_new_tokens=8)
    samples = generate(policy, PROMPTS, config, generator=torch.Generator().manual_seed(0))
    scores = policy.target_logprobs(Packed.from_groups(PROMPTS, samples.grouped())).logprobs
    torch.testing.assert_close(samples.flat(samples.logprobs), scores, atol=2e-5, rtol=1e-5)
