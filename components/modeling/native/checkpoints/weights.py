"""Weights of Hugging Face folders in the native decoder's layout, and back.

The decoder fuses q, k, v and gate, up, and keeps query and key rows interleaved for rotary positions; files on disk
keep the layout of transformers. `_stacks` has every name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from components.contract.errors import InputError
from components.contract.model_folders.headers import weight_files
from components.modeling.models.policy import Gather
from components.modeling.native.adapters import merged
from components.modeling.native.decoder import Decoder, Layer
from components.modeling.native.decoder_config import DecoderConfig


class Stack(NamedTuple):
    """A parameter of the decoder and the stored tensors whose rows it stacks."""

    parameter: Tensor
    names: tuple[str, ...]
    """One for each part, or one for all."""
    parts: tuple[tuple[int, bool], ...]
    """Rows of each part, and whether the decoder keeps them interleaved."""


Matrix = Callable[[Layer, str], Tensor]
"""A matrix of a layer by its name."""


def _stacks(decoder: Decoder, matrix: Matrix = Layer.matrix) -> Iterator[Stack]:
    """Yield every parameter with its names in transformers' files; `matrix` gives the matrices of layers."""
    yield from _outer_stacks(decoder)
    for index, layer in enumerate(decoder.layers):
        yield from _layer_stacks(decoder.config, index, layer, matrix)


def _outer_stacks(decoder: Decoder) -> Iterator[Stack]:
    """Yield the parameters that belong to no layer."""
    yield _one(decoder.embedding, "model.embed_tokens.weight")
    yield _one(decoder.norm, "model.norm.weight")
    if decoder.head is not None:
        yield _one(decoder.head, "lm_head.weight")


def _layer_stacks(c: DecoderConfig, index: int, layer: Layer, matrix: Matrix) -> Iterator[Stack]:
    """Yield the parameters of one layer."""
    inner, kv = c.heads * c.head_width, c.kv_heads * c.head_width
    projections, halves = ((inner, True), (kv, True), (kv, False)), ((c.mlp_width, False),) * 2
    qkv, gate_up = (("qkv",), ("gate_up",)) if c.stored_fused else (("q", "k", "v"), ("gate", "up"))
    before_mlp = "pre_feedforward_layernorm" if c.post_norms else "post_attention_layernorm"
    at = f"model.layers.{index}."
    yield _one(layer.attention_norm, at + "input_layernorm.weight")
    yield _one(layer.mlp_norm, f"{at}{before_mlp}.weight")
    yield _one(matrix(layer, "attention_out"), at + "self_attn.o_proj.weight")
    yield _one(matrix(layer, "down"), at + "mlp.down_proj.weight")
    yield Stack(matrix(layer, "gate_up"), tuple(f"{at}mlp.{part}_proj.weight" for part in gate_up), halves)
    yield Stack(matrix(layer, "qkv"), tuple(f"{at}self_attn.{part}_proj.weight" for part in qkv), projections)
    if layer.qkv_bias is not None:
        yield Stack(layer.qkv_bias, tuple(f"{at}self_attn.{part}_proj.bias" for part in qkv), projections)
    if layer.query_norm is not None:
        yield Stack(layer.query_norm, (at + "self_attn.q_norm.weight",), ((c.head_width, True),))
        yield Stack(layer.key_norm, (at + "self_attn.k_norm.weight",), ((c.head_width, True),))
    if layer.post_attention_norm is not None:
        yield _one(layer.post_attention_norm, at + "post_attention_layernorm.weight")
        yield _one(layer.post_mlp_norm, at + "post_feedforward_layernorm.weight")


def _one(parameter: Tensor, name: str) -> Stack:
    return Stack(parameter, (name,), ((parameter.shape[0], False),))


def interleave(rows: Tensor, config: DecoderConfig) -> Tensor:
    """Reorder rows [H * C, ...] so that features i and i + R/2 of each head's R turning ones become neighbours."""
    heads = rows.unflatten(0, (-1, config.head_width))
    turning, still = heads[:, : config.turning], heads[:, config.turning :]
    turning = turning.unflatten(1, (2, -1)).transpose(1, 2).flatten(1, 2)
    return (torch.cat((turning, still), dim=1) if still.shape[1] else turning).flatten(0, 1)


def deinterleave(rows: Tensor, config: DecoderConfig) -> Tensor:
    """Undo `interleave`."""
    heads = rows.unflatten(0, (-1, config.head_width))
    turning, still = heads[:, : config.turning], heads[:, config.turning :]
    turning = turning.unflatten(1, (-1, 2)).transpose(1, 2).flatten(1, 2)
    return (torch.cat((turning, still), dim=1) if still.shape[1] else turning).flatten(0, 1)


def export_weights(decoder: Decoder) -> dict[str, Tensor]:
    """Return the decoder's weights, adapters merged in, by their transformers names (contiguous copies on the CPU).

    One matrix at a time: beside the model its device holds no more.
    """
    with torch.no_grad():
        return {
            name: tensor.detach().to("cpu", copy=True).contiguous()
            for stack in _stacks(decoder, merged)
            for name, tensor in _stored(stack, decoder.config)
        }


@torch.no_grad()
def named_weights(decoder: Decoder, gather: Gather) -> Iterator[tuple[str, Tensor]]:
    """Yield the decoder's weights, adapters merged in, by their transformers names: on its device, most as views."""
    inside = {id(part) for layer in decoder.layers for part in layer.modules()}
    with gather([part for part in decoder.modules() if id(part) not in inside]):
        for stack in _outer_stacks(decoder.whole_outside()):
            yield from _stored(stack, decoder.whole_config)
    for index, layer in enumerate(decoder.layers):
        with gather(list(layer.modules())):
            for stack in _layer_stacks(decoder.whole_config, index, decoder.whole_layer(index), merged):
                yield from _stored(stack, decoder.whole_config)


def _stored(stack: Stack, config: DecoderConfig) -> Iterator[tuple[str, Tensor]]:
    """Return the stored tensors of a parameter with their names; most are views."""
    parameter, names, parts = stack
    split = parameter.split([rows for rows, _ in parts])
    pieces = [deinterleave(piece, config) if turned else piece for piece, (_, turned) in zip(split, parts, strict=True)]
    return zip(names, [torch.cat(pieces)] if len(names) < len(pieces) else pieces, strict=True)


def import_weights(decoder: Decoder, weights: Mapping[str, Tensor], source: str) -> None:
    """Fill the decoder from weights by their transformers names; refuse missing and unknown names."""
    with torch.device("meta"):  # names and shapes only: no second copy of a large model
        bare = Decoder(decoder.config)
        expected = {name: tensor for stack in _stacks(bare) for name, tensor in _stored(stack, decoder.config)}
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
        for stack in _stacks(decoder):
            _fill(stack, weights, decoder.config)


def _fill(stack: Stack, weights: Mapping[str, Tensor], config: DecoderConfig) -> None:
    parameter, names, parts = stack
    stored = [weights[name] for name in names]
    pieces = stored[0].split([rows for rows, _ in parts]) if len(names) < len(parts) else stored
    turned = [interleave(piece, config) if turns else piece for piece, (_, turns) in zip(pieces, parts, strict=True)]
    parameter.copy_(torch.cat(turned) if len(turned) > 1 else turned[0])


def read_weights(folder: Path) -> dict[str, Tensor]:
    """Return all tensors of a folder's safetensors files (one file, or shards named by an index)."""
    weights: dict[str, Tensor] = {}
    for name in weight_files(folder):
        weights.update(load_file(folder / name))
    return weights


def write_weights(folder: Path, weights: Mapping[str, Tensor]) -> None:
    """Write model.safetensors; the same weights give the same bytes."""
    save_file({name: weights[name] for name in sorted(weights)}, folder / "model.safetensors", {"format": "pt"})
