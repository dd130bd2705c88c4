"""How the parameters of a decoder are parted among tensor ranks, adapters included."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import cast

from torch import nn

from components.modeling.models.cut import Cut
from components.modeling.native.adapters import Adapter
from components.modeling.native.decoder import Decoder, Layer
from components.modeling.native.decoder_config import DecoderConfig

BY_ROWS = ("qkv", "gate_up")
"""Matrices of whose rows each rank has a part; of a layer's others it has columns."""


def part_config(whole: DecoderConfig, ranks: int) -> DecoderConfig:
    """Return the sizes of one of `ranks` parts."""
    return replace(
        whole,
        vocab_size=whole.vocab_size // ranks,
        heads=whole.heads // ranks,
        kv_heads=max(1, whole.kv_heads // ranks),
        mlp_width=whole.mlp_width // ranks,
    )


def cuts_of(decoder: Decoder, ranks: int) -> Iterator[tuple[str, Cut]]:
    """Yield the name of each parameter of a whole decoder, and how it is cut."""
    c = decoder.config
    heads, keys = (c.heads * c.head_width, ranks), (c.kv_heads * c.head_width, min(ranks, c.kv_heads))
    table, qkv, halves = Cut(((c.vocab_size, ranks),)), Cut((heads, keys, keys)), Cut(((c.mlp_width, ranks),) * 2)
    columns, seen = Cut(columns=True), Cut(summed=True)  # norms of heads see this rank's heads alone
    known = {"embedding": table, "head": table, "qkv": qkv, "qkv_bias": qkv, "gate_up": halves}
    known |= {"attention_out": columns, "down": columns, "query_norm": seen, "key_norm": seen}
    for name, _ in decoder.named_parameters():
        *_, module, last = ["", *name.split(".")]
        if last.startswith("lora_"):
            adapter = cast(Adapter, decoder.get_submodule(name.removesuffix(f".{last}")))
            yield name, _adapter_cut(last, known[module], adapter)
        else:
            yield name, known.get(last, Cut())


def _adapter_cut(factor: str, matrix: Cut, adapter: Adapter) -> Cut:
    """Return how a factor of an adapter is cut: one as its matrix is, and of the other all ranks have all."""
    if matrix.columns:
        return Cut(columns=True) if factor == "lora_A" else Cut(summed=True)
    if factor == "lora_A":
        return Cut(summed=True)
    starts = [sum(rows for rows, _ in matrix.blocks[:index]) for index in range(len(matrix.blocks))]
    inside = zip(starts, matrix.blocks, strict=True)
    return Cut(tuple(block for start, block in inside if any(a <= start < b for a, b in adapter.spans)))


def move_adapters(target: Layer, source: Layer) -> None:
    """Give a layer of other sizes the adapters of a layer, for its own rows; their weights are still the other's."""
    for matrix, module in source.adapters.items():
        adapter = copy.copy(cast(Adapter, module))
        adapter._parameters = dict(module._parameters)
        if matrix in BY_ROWS:
            rows = dict(zip(_borders(source.config, matrix), _borders(target.config, matrix), strict=True))
            adapter.change_rows(tuple((rows[start], rows[stop]) for start, stop in adapter.spans))
        target.adapters[matrix] = adapter
    target.plain = source.plain


def set_weight(module: nn.Module, name: str, weight: nn.Parameter) -> None:
    """Replace a parameter by its dotted name."""
    owner, _, last = name.rpartition(".")
    setattr(module.get_submodule(owner), last, weight)


def _borders(c: DecoderConfig, matrix: str) -> tuple[int, ...]:
    """Return where the parts of a matrix begin and end that an adapter may be on."""
    inner, kv = c.heads * c.head_width, c.kv_heads * c.head_width
    return (0, inner, inner + kv, inner + 2 * kv) if matrix == "qkv" else (0, c.mlp_width, 2 * c.mlp_width)
