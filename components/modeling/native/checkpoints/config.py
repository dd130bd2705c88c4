"""config.json of the families that the native decoder knows, read, and written for a new model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from components.contract.errors import InputError
from components.modeling.models.families import windows, with_defaults
from components.modeling.models.model_sizes import ModelSizes
from components.modeling.native.decoder_config import DecoderConfig
from components.modeling.native.rotary import SCALED, Rope


@dataclass(frozen=True)
class Family:
    """What a model type's blocks are made of, beyond Llama's."""

    variants: Mapping[str, Any] = field(default_factory=dict)
    """Fields of DecoderConfig."""
    activation: str = "silu"
    """hidden_act that it must have."""
    caps: bool = False
    """Whether config.json has soft caps and a scale of queries."""


_GEMMA = {"norm": "rms_from_one", "activation": "geglu", "post_norms": True, "scale_embeddings": True}
FAMILIES: Mapping[str, Family] = {
    "llama": Family(),
    "mistral": Family(),
    "qwen2": Family({"attention_bias": True}),
    "qwen3": Family({"head_norm": True}),
    "phi3": Family({"stored_fused": True}),
    "gemma2": Family(_GEMMA, "gelu_pytorch_tanh", caps=True),
    "gemma3_text": Family({**_GEMMA, "head_norm": True}, "gelu_pytorch_tanh", caps=True),
}


KNOWN_ROPES = ("default", "dynamic", *SCALED)
"""Dynamic NTK is plain up to the model's own length."""


def why_not_native(config: Mapping[str, Any]) -> str | None:
    """Return why a checkpoint cannot run on the native decoder, or None if it can."""
    kind = config.get("model_type")
    family = FAMILIES.get(kind or "")
    if family is None:
        return f"model type {kind!r} is not one of {', '.join(sorted(FAMILIES))}"
    ropes = [rope for rope in _ropes(with_defaults(config)) if rope is not None]
    unknown = [scaling for rope in ropes if (scaling := rope.get("rope_type", "default")) not in KNOWN_ROPES]
    act = config.get("hidden_activation") or config.get("hidden_act") or family.activation
    reasons = {
        f"rotary positions are scaled by {', '.join(map(repr, unknown))}": bool(unknown),
        "rotary positions cover part of a head": kind != "phi3"
        and any(rope.get("partial_rotary_factor", 1.0) != 1.0 for rope in ropes),
        "attention looks both ways": bool(config.get("use_bidirectional_attention")),
        f"the MLP uses {act!r}": act != family.activation,
        "projections other than q, k, v have a bias": bool(config.get("mlp_bias"))
        or (kind != "qwen2" and bool(config.get("attention_bias"))),
        "the checkpoint is quantised": "quantization_config" in config,
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def decoder_config(config: Mapping[str, Any]) -> DecoderConfig:
    """Translate a transformers config of a known family; raise InputError if it lacks a size."""
    sizes = ModelSizes.from_config(config)
    if sizes is None:
        raise InputError("config.json lacks sizes of the model, such as hidden_size or num_attention_heads")
    config = with_defaults(config)
    family = FAMILIES[config["model_type"]]
    rope, local = _ropes(config)
    positions = config.get("max_position_embeddings", 2048)
    longest = _longest(rope, positions)
    caps = {
        "query_scale": config.get("query_pre_attn_scalar", sizes.head_width) ** -0.5,
        "attention_cap": config.get("attn_logit_softcapping"),
        "logit_cap": config.get("final_logit_softcapping"),
    }
    return DecoderConfig.sized(
        sizes,
        rope=_as_rope(rope, longest),
        local_rope=None if local is None else _as_rope(local, None),
        norm_eps=config.get("rms_norm_eps", 1e-6),
        max_positions=positions,
        windows=windows(config),
        initializer_range=config.get("initializer_range", 0.02),
        **family.variants,
        **(caps if family.caps else {}),
    )


def _ropes(config: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Return the parameters of rotary positions, and those of layers with a window if they have their own.

    By the names of transformers 5, from files of older versions too.
    """
    stored = dict(config.get("rope_parameters") or {})
    inherited = {
        "rope_theta": config.get("rope_theta", 10000.0),
        "partial_rotary_factor": config.get("partial_rotary_factor", 1.0),
        "original_max_position_embeddings": config.get("original_max_position_embeddings"),
    }
    inherited = {name: value for name, value in inherited.items() if value is not None}
    if config["model_type"] != "gemma3_text":
        rope = inherited | _typed(stored or dict(config.get("rope_scaling") or {}))
        if config["model_type"] == "phi3" and rope.get("rope_type") in ("su", "yarn"):  # its older names
            rope["rope_type"] = "longrope"
        return rope, None
    scaling = dict(config.get("rope_scaling") or {})
    whole = inherited | _typed(scaling | dict(stored.get("full_attention") or {}))
    local = {"rope_theta": config["rope_local_base_freq"]} | _typed(dict(stored.get("sliding_attention") or {}))
    return whole, local


def _typed(stored: dict[str, Any]) -> dict[str, Any]:
    """Return parameters with their scaling as `rope_type`, which older files call `type`."""
    if "type" in stored:
        stored.setdefault("rope_type", stored.pop("type"))
    return stored


def _longest(rope: Mapping[str, Any], positions: int) -> int | None:
    """Return up to which length positions turn alike in every pass, if there is a bound."""
    bounds = {"longrope": rope.get("original_max_position_embeddings", positions), "dynamic": positions}
    return bounds.get(rope.get("rope_type", "default"))


def _as_rope(rope: Mapping[str, Any], longest: int | None) -> Rope:
    return Rope(
        longest=longest,
        theta=float(rope["rope_theta"]),
        scaled=rope if rope.get("rope_type") in SCALED else None,
        share=rope.get("partial_rotary_factor", 1.0),
    )


def llama_config(config: DecoderConfig, *, pad_id: int | None, eos_id: int | None) -> dict[str, Any]:
    """Return config.json of a new model, as a LlamaForCausalLM."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "attention_bias": False,
        "bos_token_id": None,
        "eos_token_id": eos_id,
        "head_dim": config.head_width,
        "hidden_act": "silu",
        "hidden_size": config.width,
        "initializer_range": config.initializer_range,
        "intermediate_size": config.mlp_width,
        "max_position_embeddings": config.max_positions,
        "mlp_bias": False,
        "model_type": "llama",
        "num_attention_heads": config.heads,
        "num_hidden_layers": config.layers,
        "num_key_value_heads": config.kv_heads,
        "pad_token_id": pad_id,
        "rms_norm_eps": config.norm_eps,
        "rope_theta": config.rope.theta,
        "tie_word_embeddings": config.tie_embeddings,
        "vocab_size": config.vocab_size,
    }
