"""Tiny checkpoints with random weights, built by transformers itself, for tests of the model core."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import (
    Gemma2Config,
    Gemma2ForCausalLM,
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    GPT2Config,
    GPT2LMHeadModel,
    GptOssConfig,
    GptOssForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    MixtralConfig,
    MixtralForCausalLM,
    Phi3Config,
    Phi3ForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
)

VOCAB = 40
EOS = 3

_SIZES = {
    "vocab_size": VOCAB,
    "hidden_size": 24,
    "intermediate_size": 36,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 128,
    "bos_token_id": None,
    "eos_token_id": EOS,
    "pad_token_id": 0,
}

_ROPE_OF_PHI = {"rope_type": "default", "rope_theta": 500.0, "partial_rotary_factor": 0.75}
_ROPE_OF_OSS = {
    "rope_type": "yarn",
    "rope_theta": 500.0,
    "factor": 4.0,
    "original_max_position_embeddings": 32,
    "truncate": False,
}

NATIVE = (
    "llama",
    "llama-gqa",
    "llama2",
    "llama3",
    "llama-linear",
    "llama-dynamic",
    "mistral",
    "mistral-window",
    "qwen2",
    "qwen2-yarn",
    "qwen2-window",
    "qwen3",
    "gemma2",
    "gemma3",
    "phi3",
    "phi3-long",
)
WINDOWED = ("mistral-window", "qwen2-window", "gemma2", "gemma3", "phi3")
"""Those of NATIVE with layers that see 5 to 8 tokens."""


MIXTURES = ("qwen3-moe", "mixtral", "gpt-oss")
"""Mixtures of four experts, of which two are asked."""

_EXPERTS = {"num_key_value_heads": 2, "head_dim": 8, "num_experts_per_tok": 2}


def oss_sizes(**sizes: int) -> dict[str, Any]:
    """Return the arguments of a GptOssConfig, of other sizes if given."""
    given = {"num_local_experts": 4, "sliding_window": 7, "rope_parameters": _ROPE_OF_OSS}
    return {**_SIZES, **_EXPERTS, **given, **sizes}


def build(kind: str, *, seed: int = 0) -> PreTrainedModel:
    """Return a model whose weights, norms and biases too, are far from their initial values."""
    made = {
        "llama": lambda: LlamaForCausalLM(LlamaConfig(**_SIZES, tie_word_embeddings=True)),
        "llama-gqa": lambda: LlamaForCausalLM(
            LlamaConfig(**_SIZES, num_key_value_heads=2, head_dim=8, tie_word_embeddings=False, rope_theta=500.0)
        ),
        "llama2": lambda: LlamaForCausalLM(LlamaConfig(**_SIZES, rms_norm_eps=1e-5, tie_word_embeddings=False)),
        "llama3": lambda: LlamaForCausalLM(
            LlamaConfig(
                **_SIZES,
                num_key_value_heads=2,
                rms_norm_eps=1e-5,
                rope_parameters={
                    "rope_type": "llama3",
                    "factor": 8.0,
                    "low_freq_factor": 1.0,
                    "high_freq_factor": 4.0,
                    "original_max_position_embeddings": 16,
                    "rope_theta": 500.0,
                },
            )
        ),
        "llama-linear": lambda: LlamaForCausalLM(
            LlamaConfig(**_SIZES, rope_parameters={"rope_type": "linear", "factor": 2.0, "rope_theta": 10000.0})
        ),
        "llama-dynamic": lambda: LlamaForCausalLM(
            LlamaConfig(**_SIZES, rope_parameters={"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0})
        ),
        "mistral": lambda: MistralForCausalLM(
            MistralConfig(**_SIZES, num_key_value_heads=2, head_dim=8, sliding_window=None)
        ),
        "mistral-window": lambda: MistralForCausalLM(MistralConfig(**_SIZES, num_key_value_heads=2, sliding_window=8)),
        "qwen2-yarn": lambda: Qwen2ForCausalLM(
            Qwen2Config(
                **_SIZES,
                num_key_value_heads=2,
                rope_parameters={
                    "rope_type": "yarn",
                    "factor": 4.0,
                    "original_max_position_embeddings": 32,
                    "rope_theta": 10000.0,
                },
            )
        ),
        "qwen2": lambda: Qwen2ForCausalLM(Qwen2Config(**_SIZES, num_key_value_heads=1, tie_word_embeddings=True)),
        "qwen3": lambda: Qwen3ForCausalLM(Qwen3Config(**_SIZES, num_key_value_heads=2, head_dim=6)),
        "qwen2-window": lambda: Qwen2ForCausalLM(
            Qwen2Config(**_SIZES, num_key_value_heads=2, use_sliding_window=True, sliding_window=6, max_window_layers=1)
        ),
        "gemma2": lambda: Gemma2ForCausalLM(
            Gemma2Config(
                **_SIZES,
                num_key_value_heads=2,
                head_dim=8,
                query_pre_attn_scalar=11,
                sliding_window=7,
                attn_logit_softcapping=3.0,
                final_logit_softcapping=4.0,
            )
        ),
        "gemma3": lambda: Gemma3ForCausalLM(
            Gemma3TextConfig(
                **{**_SIZES, "num_hidden_layers": 3},
                num_key_value_heads=1,
                head_dim=8,
                query_pre_attn_scalar=8,
                sliding_window=5,
                sliding_window_pattern=3,
                rope_parameters={
                    "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000.0},
                    "sliding_attention": {"rope_type": "default", "rope_theta": 50.0},
                },
            )
        ),
        "phi3": lambda: Phi3ForCausalLM(
            Phi3Config(**_SIZES, num_key_value_heads=2, sliding_window=8, rope_parameters=_ROPE_OF_PHI)
        ),
        "phi3-long": lambda: Phi3ForCausalLM(
            Phi3Config(
                **_SIZES,
                num_key_value_heads=2,
                tie_word_embeddings=True,
                original_max_position_embeddings=96,
                rope_parameters={
                    **_ROPE_OF_PHI,
                    "rope_type": "longrope",
                    "short_factor": [1.0, 1.5],
                    "long_factor": [2.0, 5.0],
                    "original_max_position_embeddings": 96,
                },
            )
        ),
        "qwen3-moe": lambda: Qwen3MoeForCausalLM(
            Qwen3MoeConfig(**_SIZES, **_EXPERTS, num_experts=4, moe_intermediate_size=12, norm_topk_prob=True)
        ),
        "mixtral": lambda: MixtralForCausalLM(MixtralConfig(**_SIZES, **_EXPERTS, num_local_experts=4)),
        "gpt-oss": lambda: GptOssForCausalLM(GptOssConfig(**oss_sizes())),
        "gpt2": lambda: GPT2LMHeadModel(
            GPT2Config(
                vocab_size=VOCAB,
                n_embd=24,
                n_layer=2,
                n_head=2,
                n_positions=128,
                bos_token_id=None,
                eos_token_id=EOS,
                resid_pdrop=0.1,
            )
        ),
    }[kind]
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = made()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.15)
    return model.eval()


def save(kind: str, folder: Path, *, seed: int = 0) -> PreTrainedModel:
    """Build a model and write it to a folder."""
    model = build(kind, seed=seed)
    model.save_pretrained(folder)
    return model


def token_lists(lengths: list[int], *, seed: int = 0) -> list[list[int]]:
    """Return random token lists of these lengths, without end marks."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(EOS + 1, VOCAB, (n,), generator=generator).tolist() for n in lengths]


def response_logprobs(model: PreTrainedModel, prompt: list[int], response: list[int]) -> Tensor:
    """Return log-probabilities of one response after one prompt, by a forward pass of its own."""
    if not response:
        return torch.empty(0, dtype=model.dtype)
    logits = model(torch.tensor([prompt + response])).logits[0, len(prompt) - 1 : -1]
    return torch.log_softmax(logits, -1).gather(-1, torch.tensor(response).unsqueeze(-1)).squeeze(-1)
