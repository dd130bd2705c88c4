"""LoRA adapters on the native decoder's fused matrices (Hu et al. 2022, section 4.1).

Shapes: N tokens, K and O input and output features, r rank, P parts of a fused matrix that have an adapter.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from components.contract.errors import InputError
from components.modeling.models.lora import FUSED, LoraConfig, stored_targets
from components.modeling.native.decoder import Decoder, Layer
from components.modeling.native.decoder_config import DecoderConfig
from components.modeling.native.ops import linear

Parts = dict[str, dict[str, tuple[int, int]]]
"""By matrix of a layer and target name: the rows [start, stop) that an adapter changes."""


class Adapter(nn.Module):
    """Adapters on parts of one matrix, which read the same input: their first factors are one product."""

    def __init__(self, weight: Tensor, parts: dict[str, tuple[int, int]], config: LoraConfig) -> None:
        super().__init__()
        # In float32 whatever the model's precision is, as peft does: small updates would be lost in bfloat16.
        given = {"device": weight.device, "dtype": torch.promote_types(weight.dtype, torch.float32)}
        self.scale = config.alpha / config.rank
        self.change_rows(tuple(parts.values()))
        self.lora_A = nn.Parameter(torch.empty(len(parts) * config.rank, weight.shape[1], **given))
        self.lora_B = nn.Parameter(torch.zeros(sum(self.rows), config.rank, **given))

    def change_rows(self, spans: tuple[tuple[int, int], ...]) -> None:
        """Be on these rows of the matrix."""
        self.spans, self.rows = spans, [stop - start for start, stop in spans]

    def initialize(self, generator: torch.Generator) -> None:
        """Draw the first factors as nn.Linear's weights; the second ones are 0, so that nothing changes yet."""
        bound = self.lora_A.shape[1] ** -0.5
        drawn = torch.empty(self.lora_A.shape).uniform_(-bound, bound, generator=generator)
        with torch.no_grad():
            self.lora_A.copy_(drawn)

    def forward(self, x: Tensor, out: Tensor) -> Tensor:
        """Return out [N, O], changed in place, plus the adapters' part of x [N, K]."""
        low = linear(x.to(self.lora_A.dtype), self.lora_A) * self.scale
        pairs = zip(low.chunk(len(self.spans), -1), self.lora_B.split(self.rows), strict=True)
        for (start, stop), (inner, up) in zip(self.spans, pairs, strict=True):
            out[:, start:stop] += linear(inner, up).to(out.dtype)
        return out

    def merge(self, weight: Tensor) -> Tensor:
        """Return weight [O, K] with the adapters in it."""
        merged = weight.clone()
        pairs = zip(self.lora_A.chunk(len(self.spans)), self.lora_B.split(self.rows), strict=True)
        for (start, stop), (down, up) in zip(self.spans, pairs, strict=True):
            merged[start:stop] += (up @ down * self.scale).to(weight.dtype)
        return merged

    def row_blocks(self) -> dict[str, tuple[int, ...]]:
        """Return the row counts of the factors that are stacked in each parameter."""
        rank = self.lora_B.shape[1]
        return {"lora_A": (rank,) * len(self.spans), "lora_B": tuple(self.rows)}


def why_not_adapted(config: LoraConfig) -> str | None:
    """Return why adapters cannot be on the native decoder, or None if they can."""
    others = sorted(set(config.target_modules) - {*FUSED, *LoraConfig().target_modules})
    return f"lora.target_modules names {', '.join(others)}, which is no projection of its blocks" if others else None


def add_adapters(decoder: Decoder, config: LoraConfig) -> None:
    """Freeze the decoder and add adapters; the same seed gives the same ones.

    Raises InputError for target names that its layers lack.
    """
    parts = _parts(decoder.config)
    known = [name for rows in parts.values() for name in rows]
    targets = stored_targets(config.target_modules, known)
    if unknown := sorted(set(targets) - set(known)):
        raise InputError(
            f"lora.target_modules: the model has no layer named {', '.join(unknown)}"
            f" (its linear layers: {', '.join(sorted(known))})"
        )
    decoder.requires_grad_(False)
    generator = torch.Generator().manual_seed(config.seed)
    for layer in decoder.layers:
        for matrix, rows in parts.items():
            if chosen := {name: rows[name] for name in rows if name in targets}:
                layer.adapters[matrix] = Adapter(layer.matrix(matrix), chosen, config)
                layer.adapters[matrix].initialize(generator)
        layer.plain = False


def _parts(c: DecoderConfig) -> Parts:
    inner, kv, mlp = c.heads * c.head_width, c.kv_heads * c.head_width, c.mlp_width
    both = inner + 2 * kv
    if c.stored_fused:
        qkv, gate_up = {"qkv_proj": (0, both)}, {"gate_up_proj": (0, 2 * mlp)}
    else:
        qkv = {"q_proj": (0, inner), "k_proj": (inner, inner + kv), "v_proj": (inner + kv, both)}
        gate_up = {"gate_proj": (0, mlp), "up_proj": (mlp, 2 * mlp)}
    rest = {"attention_out": {"o_proj": (0, c.width)}, "down": {"down_proj": (0, c.width)}}
    return {"qkv": qkv, "gate_up": gate_up, **rest}


def merged(layer: Layer, name: str) -> Tensor:
    """Return a layer's matrix with its adapter, if it has one, in it."""
    weight = layer.matrix(name)
    return layer.adapters[name].merge(weight) if name in layer.adapters else weight
