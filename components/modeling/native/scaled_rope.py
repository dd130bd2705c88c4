"""Scaled rotary positions, by transformers' own formulas.

Shapes: C head width.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

SCALED = ("linear", "llama3", "yarn")
"""Scalings that do not depend on the length of a sequence: linear, Llama 3.1's, and YaRN (Peng et al. 2023)."""


def scaled_frequencies(rope: Mapping[str, Any], *, head_width: int, max_positions: int) -> tuple[Tensor, float]:
    """Return the angle of each pair of features per position [C/2], and the factor on queries and keys.

    `rope` names its parameters as transformers does: rope_type, rope_theta, factor and those of the type.
    """
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    config = LlamaConfig(
        hidden_size=head_width,
        num_attention_heads=1,
        num_key_value_heads=1,
        head_dim=head_width,
        max_position_embeddings=max_positions,
        rope_parameters=dict(rope),
    )
    frequencies, factor = ROPE_INIT_FUNCTIONS[rope["rope_type"]](config, "cpu")
    return frequencies.float(), float(factor)
