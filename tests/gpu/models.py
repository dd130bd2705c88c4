"""Models of random weights for the steps: shapes of Qwen2.5, whole or of a few layers, made on the device."""

from __future__ import annotations

import string
from pathlib import Path
from typing import Any

import torch

from components.modeling.loading.load import new_policy
from components.modeling.models.model_config import ModelConfig
from components.modeling.models.model_sizes import ModelSizes
from components.modeling.native.checkpoints.config import decoder_config
from components.modeling.native.decoder import Decoder
from components.modeling.native.native_policy import NativePolicy
from components.modeling.text.tokenizer import train_tokenizer
from components.modeling.text.tokenizer_config import TokenizerConfig
from tests.gpu.device import DEVICE, sized

QWEN_VOCABULARY = 151_936
SHAPES: dict[str, tuple[int, int, int, int, int]] = {
    "0.5B": (896, 24, 14, 2, 4864),
    "1.5B": (1536, 28, 12, 2, 8960),
    "7B": (3584, 28, 28, 4, 18944),
    "tiny": (64, 2, 4, 2, 128),
}
"""Width, layers, heads, key-value heads and MLP width of Qwen2.5, and of a model for rehearsals on a CPU."""


def qwen(name: str, *, layers: int | None = None) -> dict[str, Any]:
    """Return config.json of a Qwen2.5, whole or of fewer layers; on a CPU always that of the tiny one."""
    width, own_layers, heads, kv_heads, mlp_width = SHAPES[sized(name, "tiny")]
    return {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "vocab_size": sized(QWEN_VOCABULARY, 512),
        "hidden_size": width,
        "num_hidden_layers": min(layers or own_layers, own_layers),
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "intermediate_size": mlp_width,
        "max_position_embeddings": 32_768,
        "tie_word_embeddings": name != "7B",
        "rope_theta": 1_000_000.0,
        "rms_norm_eps": 1e-6,
        "hidden_act": "silu",
        "bos_token_id": None,
        "eos_token_id": 3,
        "pad_token_id": 0,
    }


def random_policy(config: dict[str, Any], *, dtype: str = "bfloat16", seed: int = 0) -> NativePolicy:
    """Return a policy whose weights are drawn on the device, in its precision: a 7B takes seconds."""
    with torch.device("meta"):
        decoder = Decoder(decoder_config(config))
    decoder = decoder.to(getattr(torch, dtype)).to_empty(device=DEVICE)
    torch.manual_seed(seed)
    with torch.no_grad():
        for name, parameter in decoder.named_parameters():
            if parameter.ndim == 2:
                parameter.normal_(0.0, 0.02)
            else:
                parameter.fill_(0.0 if name.endswith("bias") else 1.0)
    return NativePolicy(decoder, config, None)


def sizes_of(config: dict[str, Any]) -> ModelSizes:
    """Return the sizes that estimates of memory take."""
    sizes = ModelSizes.from_config(config)
    assert sizes is not None
    return sizes


def letters_model(folder: Path, *, width: int = 64, layers: int = 2) -> Path:
    """Write a small model whose tokenizer knows letters; return its folder."""
    tokenizer = train_tokenizer([string.ascii_letters], {}, TokenizerConfig(phrases=False))
    config = ModelConfig(width=width, layers=layers, heads=4, kv_heads=2, mlp_width=2 * width)
    new_policy(config, tokenizer=tokenizer, seed=0).save(folder)
    return folder


def token_rows(lengths: list[int], vocabulary: int, *, seed: int = 0) -> list[list[int]]:
    """Return random tokens of these lengths."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(4, vocabulary, (n,), generator=generator).tolist() for n in lengths]
