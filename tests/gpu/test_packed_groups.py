"""Packed groups, forward and backward: as exact as transformers is in the same precision, measured against float64."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from components.modeling.loading.load import load_policy
from components.modeling.native.checkpoints.weights import export_weights
from components.modeling.packing.packed import Packed
from tests.gpu.device import DEVICE, free_memory, sized
from tests.gpu.models import token_rows

pytestmark = pytest.mark.gpu

VOCABULARY = sized(2048, 64)
PROMPTS = token_rows(sized([300, 37, 700], [9, 3]), VOCABULARY, seed=1)
LENGTHS = sized(([400, 90, 1, 700], [256, 33], [1000, 512, 64]), ([12, 1, 20], [7]))
RESPONSES = [token_rows(list(lengths), VOCABULARY, seed=2 + at) for at, lengths in enumerate(LENGTHS)]
SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": sized(512, 32),
    "intermediate_size": sized(1024, 48),
    "num_hidden_layers": sized(4, 2),
    "num_attention_heads": sized(8, 4),
    "num_key_value_heads": 2,
    "head_dim": sized(64, 8),
    "max_position_embeddings": 4096,
    "bos_token_id": None,
    "eos_token_id": 3,
    "pad_token_id": 0,
    "tie_word_embeddings": True,
    "initializer_range": 0.05,
}
KINDS: dict[str, dict[str, Any]] = {
    "llama": {},
    "qwen2": {},
    "qwen3": {},
    "mistral": {"sliding_window": sized(128, 6)},
    "gemma3_text": {"query_pre_attn_scalar": 64, "sliding_window": sized(128, 6)},
    "gemma2": {"query_pre_attn_scalar": 64, "sliding_window": sized(128, 6)},
}
WORSE = 2.0
"""Times transformers' error that ours may be: both round, in other orders."""
FLOOR = {"float32": 2e-5, "bfloat16": 2e-2}
"""Error that is always allowed, in nats; TF32 is off, as in training."""


@pytest.fixture(scope="module", params=list(KINDS))
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a random model of the family."""
    path = tmp_path_factory.mktemp(request.param)
    torch.manual_seed(0)
    config = AutoConfig.for_model(request.param, **{**SIZES, **KINDS[request.param]})
    AutoModelForCausalLM.from_config(config).save_pretrained(path)
    return path


def weighted(logprobs: Tensor) -> Tensor:
    """Return a loss whose tokens weigh differently, some of them negatively, as advantages do."""
    weights = torch.linspace(-1, 2, logprobs.shape[0], dtype=logprobs.dtype, device=logprobs.device)
    return (logprobs * weights).sum() / logprobs.shape[0]


def separate(model: PreTrainedModel) -> Tensor:
    """Return all responses' log-probabilities by transformers, a pass for each of them."""
    found = []
    for prompt, group in zip(PROMPTS, RESPONSES, strict=True):
        for response in group:
            logits = model(torch.tensor([prompt + response], device=DEVICE)).logits[0, len(prompt) - 1 : -1]
            logits = logits if logits.dtype == torch.float64 else logits.float()
            wanted = torch.tensor(response, device=DEVICE).unsqueeze(-1)
            found.append(torch.log_softmax(logits, -1).gather(-1, wanted).squeeze(-1))
    return torch.cat(found)


def theirs(folder: Path, dtype: str) -> tuple[Tensor, dict[str, Tensor]]:
    """Return log-probabilities and gradients of transformers."""
    eager = {"attn_implementation": "eager"} if dtype == "float64" else {}
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype), **eager).to(DEVICE)
    logprobs = separate(model)
    weighted(logprobs).backward()
    return logprobs.detach().double().cpu(), {n: p.grad.double().cpu() for n, p in model.named_parameters()}


def ours(folder: Path, dtype: str) -> tuple[Tensor, dict[str, Tensor]]:
    """Return log-probabilities and gradients of one packed pass, by the names that transformers has."""
    policy = load_policy(folder, dtype=dtype, device=DEVICE, backend="native")
    logprobs = policy.target_logprobs(Packed.from_groups(PROMPTS, RESPONSES, DEVICE)).logprobs
    weighted(logprobs).backward()
    with torch.no_grad():
        for parameter in policy.module.parameters():
            parameter.copy_(parameter.grad)
    gradients = {name: tensor.double().cpu() for name, tensor in export_weights(policy.module).items()}
    return logprobs.detach().double().cpu(), gradients


def distance(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    """Return how far gradients are from exact ones, relative to these, over all weights together."""
    names = [name for name in other if name in one]
    wrong = torch.cat([(one[name] - other[name]).flatten() for name in names]).norm()
    return float(wrong / torch.cat([other[name].flatten() for name in names]).norm())


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_pack_is_as_exact_as_transformers(folder: Path, dtype: str) -> None:
    free_memory()
    exact, exact_gradients = theirs(folder, "float64")
    reference, reference_gradients = theirs(folder, dtype)
    found, gradients = ours(folder, dtype)
    error, allowed = ((values - exact).abs().mean() for values in (found, reference))
    assert float(error) <= max(WORSE * float(allowed), FLOOR[dtype] / 10)
    assert float((found - exact).abs().max()) <= max(WORSE * float((reference - exact).abs().max()), FLOOR[dtype])
    limit = max(WORSE * distance(reference_gradients, exact_gradients), FLOOR[dtype] / 10)
    assert distance(gradients, exact_gradients) <= limit


def test_float64_is_transformers(folder: Path) -> None:
    """The same numbers, not only the same distance from others."""
    exact, exact_gradients = theirs(folder, "float64")
    found, gradients = ours(folder, "float64")
    # transformers rounds rotary positions to float32 in any precision
    torch.testing.assert_close(found, exact, atol=2e-4, rtol=1e-5)
    assert distance(gradients, exact_gradients) < 1e-4
