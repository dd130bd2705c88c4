"""What transformers assumes of a model family where a config.json is silent. Free of torch: plans read it too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_GEMMA = {
    "head_dim": 256,
    "hidden_activation": "gelu_pytorch_tanh",
    "num_key_value_heads": 4,
    "query_pre_attn_scalar": 256,
    "sliding_window": 4096,
    "tie_word_embeddings": True,
}

DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "mistral": {"sliding_window": 4096},
    "gemma2": {
        **_GEMMA,
        "attn_logit_softcapping": 50.0,
        "final_logit_softcapping": 30.0,
        "max_position_embeddings": 8192,
        "sliding_window_pattern": 2,
    },
    "gemma3_text": {
        **_GEMMA,
        "max_position_embeddings": 131072,
        "rope_theta": 1_000_000.0,
        "rope_local_base_freq": 10_000.0,
        "sliding_window_pattern": 6,
    },
    "phi3": {"rms_norm_eps": 1e-5, "max_position_embeddings": 4096, "original_max_position_embeddings": 4096},
    "qwen2": {"max_window_layers": 28, "sliding_window": 4096},
    "qwen3": {"max_window_layers": 28, "sliding_window": 4096},
}


def with_defaults(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a config.json with what its family's class in transformers fills in."""
    return {**DEFAULTS.get(config.get("model_type", ""), {}), **config}


def windows(config: Mapping[str, Any]) -> tuple[int | None, ...]:
    """Return how many tokens back each layer sees, itself included (None: all); () if every layer sees all."""
    config = with_defaults(config)
    window, layers = config.get("sliding_window"), config["num_hidden_layers"]
    kind = config.get("model_type")
    if window is None or (kind in ("qwen2", "qwen3") and not config.get("use_sliding_window")):
        return ()
    if types := config.get("layer_types"):
        local = [name == "sliding_attention" for name in types]
    elif pattern := config.get("sliding_window_pattern"):
        local = [bool((index + 1) % pattern) for index in range(layers)]
    elif kind in ("qwen2", "qwen3"):
        local = [index >= config["max_window_layers"] for index in range(layers)]
    else:
        local = [kind in ("mistral", "phi3")] * layers
    return tuple(window if here else None for here in local) if any(local) else ()
