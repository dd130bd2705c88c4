"""Hugging Face checkpoints of Llama-family models: their config and weight layout, read and written.

The native decoder fuses q, k, v and gate, up, and keeps query and key rows interleaved for rotary positions;
files on disk keep the layout of transformers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from components.contract.errors import InputError
from components.modeling.models.model_sizes import ModelSizes
from components.modeling.native.decoder import Decoder, DecoderConfig
from components.modeling.native.scaled_rope import SCALED

ARCHITECTURES = ("llama", "mistral", "qwen2", "qwen3")
MISTRAL_WINDOW = 4096
"""What transformers assumes for a Mistral whose config.json does not say."""


def why_not_native(config: Mapping[str, Any]) -> str | None:
    """Return why a checkpoint cannot run on the native decoder, or None if it can."""
    kind = config.get("model_type")
    rope = _rope(config)
    scaling = rope.get("rope_type", "default")
    window = config.get("sliding_window", MISTRAL_WINDOW) if kind == "mistral" else None
    reasons = {
        f"model type {kind!r} is not one of {', '.join(sorted(ARCHITECTURES))}": kind not in ARCHITECTURES,
        f"rotary positions are scaled by {scaling!r}": scaling not in ("default", *SCALED),
        "rotary positions cover part of a head": rope.get("partial_rotary_factor", 1.0) != 1.0,
        "attention uses a sliding window": bool(config.get("use_sliding_window"))
        or (window is not None and window < config.get("max_position_embeddings", 0)),
        f"the MLP uses {config.get('hidden_act')!r}": config.get("hidden_act", "silu") != "silu",
        "projections other than q, k, v have a bias": bool(config.get("mlp_bias"))
        or (kind != "qwen2" and bool(config.get("attention_bias"))),
        "the checkpoint is quantised": "quantization_config" in config,
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def decoder_config(config: Mapping[str, Any]) -> DecoderConfig:
    """Translate a transformers config of a Llama-family model; raise InputError if it lacks a size."""
    rope = _rope(config)
    sizes = ModelSizes.from_config(config)
    if sizes is None:
        raise InputError("config.json lacks sizes of the model, such as hidden_size or num_attention_heads")
    return DecoderConfig.sized(
        sizes,
        rope_theta=float(rope["rope_theta"]),
        scaled_rope=rope if rope.get("rope_type") in SCALED else None,
        norm_eps=config.get("rms_norm_eps", 1e-6),
        max_positions=config.get("max_position_embeddings", 2048),
        attention_bias=config["model_type"] == "qwen2",
        head_norm=config["model_type"] == "qwen3",
        initializer_range=config.get("initializer_range", 0.02),
    )


def _rope(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of rotary positions by the names of transformers 5, from files of older versions too."""
    stored = dict(config.get("rope_parameters") or config.get("rope_scaling") or {})
    if "type" in stored:
        stored.setdefault("rope_type", stored.pop("type"))
    inherited = {
        "rope_theta": config.get("rope_theta", 10000.0),
        "partial_rotary_factor": config.get("partial_rotary_factor", 1.0),
        "original_max_position_embeddings": config.get("original_max_position_embeddings"),
    }
    return {name: value for name, value in inherited.items() if value is not None} | stored


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
        "rope_theta": config.rope_theta,
        "tie_word_embeddings": config.tie_embeddings,
        "vocab_size": config.vocab_size,
    }


def interleave(rows: Tensor, head_width: int) -> Tensor:
    """Reorder rows [H * C, ...] so that features i and i + C/2 of each head become neighbours."""
    return rows.unflatten(0, (-1, 2, head_width // 2)).transpose(1, 2).flatten(0, 2)


def deinterleave(rows: Tensor, head_width: int) -> Tensor:
    """Undo `interleave`."""
    return rows.unflatten(0, (-1, head_width // 2, 2)).transpose(1, 2).flatten(0, 2)


def export_weights(decoder: Decoder) -> dict[str, Tensor]:
    """Return the decoder's weights by their transformers names (contiguous copies on the CPU)."""
    return {
        name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in _by_stored_name(decoder).items()
    }


def _by_stored_name(decoder: Decoder) -> dict[str, Tensor]:
    """Return the decoder's weights by their transformers names; most are views."""
    c = decoder.config
    kv = c.kv_heads * c.head_width
    out = {"model.embed_tokens.weight": decoder.embedding, "model.norm.weight": decoder.norm}
    if decoder.head is not None:
        out["lm_head.weight"] = decoder.head
    for index, layer in enumerate(decoder.layers):
        at = f"model.layers.{index}."
        out[at + "input_layernorm.weight"] = layer.attention_norm
        out[at + "post_attention_layernorm.weight"] = layer.mlp_norm
        out[at + "self_attn.o_proj.weight"] = layer.attention_out
        out[at + "mlp.down_proj.weight"] = layer.down
        gate, up = layer.gate_up.chunk(2)
        out[at + "mlp.gate_proj.weight"], out[at + "mlp.up_proj.weight"] = gate, up
        for kind, fused in (("weight", layer.qkv), ("bias", layer.qkv_bias)):
            if fused is not None:
                query, key, value = fused.split((c.heads * c.head_width, kv, kv))
                out[at + f"self_attn.q_proj.{kind}"] = deinterleave(query, c.head_width)
                out[at + f"self_attn.k_proj.{kind}"] = deinterleave(key, c.head_width)
                out[at + f"self_attn.v_proj.{kind}"] = value
        if layer.query_norm is not None:
            out[at + "self_attn.q_norm.weight"] = deinterleave(layer.query_norm, c.head_width)
            out[at + "self_attn.k_norm.weight"] = deinterleave(layer.key_norm, c.head_width)
    return out


def import_weights(decoder: Decoder, weights: Mapping[str, Tensor], source: str) -> None:
    """Fill the decoder from weights by their transformers names; refuse missing and unknown names."""
    with torch.device("meta"):  # names and shapes only: no second copy of a large model
        expected = _by_stored_name(Decoder(decoder.config))
    found = {name for name in weights if not name.endswith("rotary_emb.inv_freq")}
    if decoder.head is None:
        found.discard("lm_head.weight")
    if found != set(expected):
        missing, unknown = sorted(set(expected) - found), sorted(found - set(expected))
        raise InputError(f"{source}: weights do not fit its config (missing: {missing}; unknown: {unknown})")
    for name, tensor in expected.items():
        if tensor.shape != weights[name].shape:
            raise InputError(f"{source}: {name} is {tuple(weights[name].shape)}, its config says {tuple(tensor.shape)}")
    with torch.no_grad():
        _fill(decoder, weights)


def _fill(decoder: Decoder, weights: Mapping[str, Tensor]) -> None:
    c = decoder.config
    decoder.embedding.copy_(weights["model.embed_tokens.weight"])
    decoder.norm.copy_(weights["model.norm.weight"])
    if decoder.head is not None:
        decoder.head.copy_(weights["lm_head.weight"])
    for index, layer in enumerate(decoder.layers):
        at = f"model.layers.{index}."
        layer.attention_norm.copy_(weights[at + "input_layernorm.weight"])
        layer.mlp_norm.copy_(weights[at + "post_attention_layernorm.weight"])
        layer.attention_out.copy_(weights[at + "self_attn.o_proj.weight"])
        layer.down.copy_(weights[at + "mlp.down_proj.weight"])
        layer.gate_up.copy_(torch.cat([weights[at + f"mlp.{part}_proj.weight"] for part in ("gate", "up")]))
        for kind, fused in (("weight", layer.qkv), ("bias", layer.qkv_bias)):
            if fused is not None:
                query, key, value = (weights[at + f"self_attn.{part}_proj.{kind}"] for part in "qkv")
                turned = (interleave(query, c.head_width), interleave(key, c.head_width))
                fused.copy_(torch.cat((*turned, value)))
        if layer.query_norm is not None:
            layer.query_norm.copy_(interleave(weights[at + "self_attn.q_norm.weight"], c.head_width))
            layer.key_norm.copy_(interleave(weights[at + "self_attn.k_norm.weight"], c.head_width))


def read_weights(folder: Path) -> dict[str, Tensor]:
    """Return all tensors of a folder's safetensors files (one file, or shards named by an index)."""
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        names = sorted(set(json.loads(index.read_text())["weight_map"].values()))
    else:
        names = ["model.safetensors"]
    weights: dict[str, Tensor] = {}
    for name in names:
        if not (folder / name).is_file():
            raise InputError(f"{folder} has no {name}; weights must be safetensors (pickled weights are refused)")
        weights.update(load_file(folder / name))
    return weights


def write_weights(folder: Path, weights: Mapping[str, Tensor]) -> None:
    """Write model.safetensors; the same weights give the same bytes."""
    save_file({name: weights[name] for name in sorted(weights)}, folder / "model.safetensors", {"format": "pt"})
