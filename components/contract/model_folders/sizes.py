"""Sizes that config.json claims, held against the tensors that the weights have."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from components.contract.errors import InputError
from components.contract.model_folders.headers import Stored

LAYERS = ("num_hidden_layers", "n_layer", "num_layers", "n_layers")
WIDTHS = (
    *("vocab_size", "hidden_size", "intermediate_size", "moe_intermediate_size", "num_attention_heads"),
    *("num_key_value_heads", "head_dim", "num_local_experts", "num_experts", "n_routed_experts"),
    *("n_embd", "n_head", "n_inner", "d_model", "d_ff", "ffn_dim"),
)
COUNTS = (*LAYERS, *WIDTHS, "max_position_embeddings", "n_positions", "sliding_window", "num_experts_per_tok")
MAY_BE_ZERO = frozenset({"num_local_experts", "num_experts", "n_routed_experts", "num_experts_per_tok"})
MOST = 1 << 31
PACKED = 8
"""Numbers that quantised weights may keep in one."""
EMBEDDING = re.compile(r"(^|\.)embed_tokens\.weight$")
LAYER = re.compile(r"(?:^|\.)(?:layers|h|blocks|block)\.(\d+)\.")
EXPERT = re.compile(r"\.experts\.(\d+)\.")
IDS = ("bos_token_id", "eos_token_id", "pad_token_id")


def check_ids(path: Path, content: Mapping[str, Any]) -> None:
    """Raise InputError for special tokens that are no whole numbers."""
    for key in IDS:
        value = content.get(key)
        for token in value if isinstance(value, list) else [value]:
            if token is not None and (type(token) is not int or not -1 <= token < MOST):
                raise InputError(f"{path}: {key} is {_shown(token)}, not a token's number")


def check_counts(path: Path, config: Mapping[str, Any]) -> None:
    """Raise InputError for sizes that are no counts."""
    for where, part in _parts(config):
        for key in COUNTS:
            value, least = part.get(key), 0 if key in MAY_BE_ZERO else 1
            if value is None or isinstance(value, list) or (type(value) is int and least <= value < MOST):
                continue
            raise InputError(f"{path}: {where}{key} is {_shown(value)}, not a whole number from {least} to {MOST - 1}")


def check_sizes(path: Path, config: Mapping[str, Any], tensors: Mapping[str, Stored]) -> None:
    """Raise InputError for sizes that the tensors of the folder cannot have."""
    if not tensors:
        raise InputError(f"{path.parent} has no tensors")
    widest = max((size for stored in tensors.values() for size in stored.shape), default=1)
    experts = 1 + max((int(at[1]) for name in tensors if (at := EXPERT.search(name))), default=-1)
    layers = {int(at[1]) for name in tensors if (at := LAYER.search(name))}
    for where, part in _parts(config):
        for key in LAYERS:
            if layers and isinstance(value := part.get(key), int) and value > len(layers):
                raise InputError(f"{path}: {where}{key} is {value}, and the weights have {len(layers)} layers")
        for key in WIDTHS:
            if isinstance(value := part.get(key), int) and value > PACKED * max(widest, experts):
                raise InputError(
                    f"{path}: {where}{key} is {value}, and no tensor of the weights is wider than {widest}"
                )
    _check_embedding(path, config, tensors)


def _parts(config: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield "", config
    if (text := config.get("text_config")) is not None:
        if not isinstance(text, dict):
            raise InputError(f"config.json: text_config is a {type(text).__name__}, not an object")
        yield "text_config.", text


def _check_embedding(path: Path, config: Mapping[str, Any], tensors: Mapping[str, Stored]) -> None:
    """Raise InputError where the one embedding matrix is of another size than the config's."""
    text = config.get("text_config") or config
    named = [name for name in tensors if EMBEDDING.search(name)]
    if config.get("quantization_config") or len(named) != 1 or len(shape := tensors[named[0]].shape) != 2:
        return
    if (claimed := text.get("vocab_size", shape[0])) != shape[0]:
        raise InputError(f"{path}: vocab_size is {claimed}, and {named[0]} is {tuple(shape)}")


def _shown(value: Any) -> str:
    return ascii(value)[:60]
