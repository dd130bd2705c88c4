"""Rotary positions: plain, scaled by transformers' own formulas, on a part of each head.

Shapes: C head width, N positions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from components.contract.errors import InputError

SCALED = ("linear", "llama3", "yarn", "longrope")
"""Scalings of transformers: linear, Llama 3.1's, YaRN (Peng et al. 2023), LongRoPE (Ding et al. 2024)."""


@dataclass(frozen=True, kw_only=True)
class Rope:
    """How positions turn queries and keys."""

    theta: float
    scaled: Mapping[str, Any] | None = None
    """Parameters of a scaling by the names of transformers; None for plain positions."""
    share: float = 1.0
    """Share of each head's features that turn, its first ones."""
    longest: int | None = None
    """Most tokens of a sequence for which this is right, if there is a bound.

    Beyond it transformers turns all positions of a pass otherwise (LongRoPE's long factors, dynamic NTK's base), so
    that a sequence's log-probabilities would depend on the others of its pass, and on how it was drawn.
    """

    def frequencies(self, head_width: int, max_positions: int) -> tuple[Tensor, float]:
        """Return the angle of each turning pair of features per position, and the factor on queries and keys."""
        if self.scaled is not None:
            return _scaled_frequencies(self, head_width, max_positions)
        turning = int(head_width * self.share)
        exponents = torch.arange(0, turning, 2, dtype=torch.int64).float()
        return 1.0 / (self.theta ** (exponents / turning)), 1.0


def _scaled_frequencies(rope: Rope, head_width: int, max_positions: int) -> tuple[Tensor, float]:
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    stored = dict(rope.scaled or {})
    config = LlamaConfig(
        hidden_size=head_width,
        num_attention_heads=1,
        num_key_value_heads=1,
        head_dim=head_width,
        max_position_embeddings=max_positions,
        rope_parameters=stored,
    )
    frequencies, factor = ROPE_INIT_FUNCTIONS[stored["rope_type"]](config, "cpu")
    return frequencies.float(), float(factor)


class TurnTable:
    """The turns of positions 0, 1, ..., computed in float32, kept and extended when longer sequences come."""

    def __init__(self, rope: Rope, head_width: int, max_positions: int, gain: float = 1.0) -> None:
        """`gain` multiplies the product of a query and a key, beside its usual 1 / sqrt(C)."""
        self.rope, self.head_width, self.max_positions, self.gain = rope, head_width, max_positions, gain
        self._turns = torch.empty(0, head_width // 2, dtype=torch.complex64)

    def upto(self, length: int, device: torch.device) -> Tensor:
        """Return the turns of positions 0..length-1 (or more), complex [>= length, C/2].

        Raises InputError beyond the length for which they are right.
        """
        if length > self._turns.shape[0] or self._turns.device != device:
            size = max(256, 1 << (length - 1).bit_length())
            # Outside inference mode: training may reuse a table built during generation.
            with torch.inference_mode(False):
                self._turns = self._table(size).to(device)
        if (longest := self.rope.longest) is not None and length > longest:
            raise InputError(
                f"a sequence of {length} tokens is longer than the {longest} for which this model's rotary positions "
                "are the same in every pass; keep sequences shorter (max_tokens), as vLLM does"
            )
        return self._turns

    def _table(self, size: int) -> Tensor:
        frequencies, factor = self.rope.frequencies(self.head_width, self.max_positions)
        angles = torch.arange(size).float().unsqueeze(1) * frequencies
        turns = torch.complex(angles.cos(), angles.sin())
        if factor != 1.0:
            turns = turns * factor
        if still := self.head_width // 2 - turns.shape[1]:
            turns = torch.cat((turns, torch.ones(size, still, dtype=turns.dtype)), dim=1)
        # Queries and keys both turn, so each takes the root of the gain.
        return turns if self.gain == 1.0 else turns * self.gain**0.5
