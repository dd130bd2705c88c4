"""gpt-oss as it is published: MXFP4 experts are read, trained and saved as plain weights."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, GptOssConfig, GptOssForCausalLM

from components.modeling.loading.load import load_policy
from components.modeling.models.lora import LoraConfig
from components.modeling.packing.packed import Packed
from tests.modeling import decoder_models as models
from tests.modeling.loading.mxfp4 import pack_experts, quantise


@pytest.fixture
def unpacked(tmp_path: Path) -> dict[str, torch.Tensor]:
    """The weights of a packed checkpoint at tmp_path / "packed", whose unpacked form is that at tmp_path / "plain"."""
    model = GptOssForCausalLM(GptOssConfig(**models.oss_sizes(hidden_size=32, intermediate_size=64)))
    model.save_pretrained(tmp_path / "plain")
    weights = pack_experts(tmp_path / "plain", tmp_path / "packed")
    model.load_state_dict(weights)
    model.save_pretrained(tmp_path / "plain")
    return weights


def test_codes_and_scales_by_hand() -> None:
    row = torch.zeros(32)
    row[:4] = torch.tensor([12.0, -1.0, 0.9, 5.0])  # largest 12 = 6 * 2^1
    blocks, scales, values = quantise(row.numpy())
    assert scales.tolist() == [128] and values[:4].tolist() == [12.0, -1.0, 1.0, 4.0]
    assert blocks[0, :2].tolist() == [7 | 9 << 4, 1 | 4 << 4]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_packed_experts_are_read_exactly(dtype: str, unpacked: dict[str, torch.Tensor], tmp_path: Path) -> None:
    """Every value of MXFP4 is one of bfloat16 too."""
    policy = load_policy(tmp_path / "packed", dtype=dtype)
    found = policy.module.state_dict()
    assert found.keys() == unpacked.keys()
    for name, tensor in unpacked.items():
        assert found[name].dtype == getattr(torch, dtype)
        assert torch.equal(found[name], tensor.to(found[name].dtype)), name
    packed = Packed.from_sequences(models.token_lists([9, 20]))
    plain = load_policy(tmp_path / "plain", dtype=dtype)
    assert torch.equal(policy.target_logprobs(packed).logprobs, plain.target_logprobs(packed).logprobs)


@pytest.mark.parametrize("lora", [None, LoraConfig(rank=2, target_modules=("q_proj", "v_proj", "experts"))])
def test_what_was_packed_trains_and_is_saved_unpacked(
    lora: LoraConfig | None, unpacked: dict[str, torch.Tensor], tmp_path: Path
) -> None:
    policy = load_policy(tmp_path / "packed", lora=lora)
    packed = Packed.from_sequences(models.token_lists([9, 20]))
    optimizer = torch.optim.SGD([p for _, p in policy.trainable()], lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        (-policy.target_logprobs(packed).logprobs.mean()).backward()
        optimizer.step()
    policy.save(tmp_path / "trained")
    saved = load_file(tmp_path / "trained" / "model.safetensors")
    streamed = dict(policy.named_weights())
    assert saved.keys() == streamed.keys() == unpacked.keys()
    assert all(torch.equal(saved[name], streamed[name]) for name in saved)
    changed = {name for name in saved if not torch.equal(saved[name], unpacked[name].float())}
    assert {"model.layers.0.mlp.experts.gate_up_proj", "model.layers.1.mlp.experts.down_proj"} <= changed
    assert "quantization_config" not in json.loads((tmp_path / "trained" / "config.json").read_text())
    (tokens,) = models.token_lists([12], seed=1)
    again = AutoModelForCausalLM.from_pretrained(tmp_path / "trained")
    ours = policy.logits(policy.hidden(Packed.from_sequences([tokens], keep_last=True)))
    torch.testing.assert_close(ours, again(torch.tensor([tokens])).logits[0], atol=1e-5, rtol=1e-5)
