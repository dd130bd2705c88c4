"""The native decoder: a Llama-family transformer in plain torch with fused projections.

Shapes: N tokens, D model width, H query heads, G key-value heads, C head width, F MLP width, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from components.modeling.models.model_sizes import ModelSizes
from components.modeling.native.attention import attend
from components.modeling.native.ops import linear, rms_norm, rotate, swiglu
from components.modeling.native.scaled_rope import scaled_frequencies
from components.modeling.packing.packed import Packed
from components.modeling.packing.ragged import RaggedPlan


@dataclass(frozen=True, kw_only=True)
class DecoderConfig:
    """Sizes and variants of a Llama-family decoder."""

    vocab_size: int
    width: int
    layers: int
    heads: int
    kv_heads: int
    head_width: int
    mlp_width: int
    rope_theta: float
    norm_eps: float
    tie_embeddings: bool
    max_positions: int
    attention_bias: bool = False
    """Whether query, key and value projections have a bias (Qwen2)."""
    head_norm: bool = False
    """Whether queries and keys are RMS-normalised per head (Qwen3)."""
    scaled_rope: Mapping[str, Any] | None = None
    """Parameters of scaled rotary positions (Llama 3.1's, YaRN) by the names of transformers; None for plain ones."""
    initializer_range: float = 0.02

    @classmethod
    def sized(cls, sizes: ModelSizes, **variants: Any) -> DecoderConfig:
        """Return a config of these sizes; `variants` are the other fields."""
        return cls(
            vocab_size=sizes.vocab,
            width=sizes.width,
            layers=sizes.layers,
            heads=sizes.heads,
            kv_heads=sizes.kv_heads,
            head_width=sizes.head_width,
            mlp_width=sizes.mlp_width,
            tie_embeddings=sizes.tied,
            **variants,
        )


class Layer(nn.Module):
    """One transformer block; projections that read the same input are one matrix."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        c = config
        self.config = config
        self.heads_out = c.heads * c.head_width
        self.kv_out = c.kv_heads * c.head_width
        self.attention_norm = nn.Parameter(torch.ones(c.width))
        self.qkv = nn.Parameter(torch.empty(self.heads_out + 2 * self.kv_out, c.width))
        self.qkv_bias = nn.Parameter(torch.zeros(self.qkv.shape[0])) if c.attention_bias else None
        self.query_norm = nn.Parameter(torch.ones(c.head_width)) if c.head_norm else None
        self.key_norm = nn.Parameter(torch.ones(c.head_width)) if c.head_norm else None
        self.attention_out = nn.Parameter(torch.empty(c.width, self.heads_out))
        self.mlp_norm = nn.Parameter(torch.ones(c.width))
        self.gate_up = nn.Parameter(torch.empty(2 * c.mlp_width, c.width))
        self.down = nn.Parameter(torch.empty(c.width, c.mlp_width))

    def forward(
        self,
        x: Tensor,
        turns: Tensor,
        *,
        plan: RaggedPlan,
        rows: Tensor | None = None,
        projections: list[Tensor] | None = None,
        mlp_inputs: list[Tensor] | None = None,
    ) -> Tensor:
        """Return the block's output of x [N, D], of the tokens `rows` alone if given; lists as in Decoder.forward."""
        qkv = self.project(x, turns)
        if projections is not None:
            projections.append(qkv)
        attended = attend(qkv, plan, self.config.heads, self.config.kv_heads)
        if mlp_inputs is not None:
            mlp_inputs.append(self.mlp_input(x, attended))
        if rows is not None:
            x, attended = x.index_select(0, rows), attended.index_select(0, rows)
        return self.finish(x, attended)

    def project(self, x: Tensor, turns: Tensor) -> Tensor:
        """Return fused, rotated queries, keys and values [N, (H + 2G) * C] of x [N, D]."""
        c = self.config
        return rotate(self._project(x), turns, c.heads + c.kv_heads, c.head_width)

    def _project(self, x: Tensor) -> Tensor:
        c = self.config
        qkv = linear(rms_norm(x, self.attention_norm, c.norm_eps), self.qkv)
        if self.qkv_bias is not None:
            qkv = qkv + self.qkv_bias
        return self.norm_heads(qkv)

    def norm_heads(self, qkv: Tensor) -> Tensor:
        """Return fused projections [N, (H + 2G) * C], queries and keys normalised if the model has head norms."""
        c = self.config
        if self.query_norm is None or self.key_norm is None:
            return qkv
        heads = qkv.unflatten(-1, (-1, c.head_width))
        query, key, value = heads.split((c.heads, c.kv_heads, c.kv_heads), dim=-2)
        query = rms_norm(query, self.query_norm, c.norm_eps)
        key = rms_norm(key, self.key_norm, c.norm_eps)
        return torch.cat((query, key, value), dim=-2).flatten(-2)

    def finish(self, x: Tensor, attended: Tensor) -> Tensor:
        """Return the block's output [N, D] from its input x and the heads' outputs [N, H * C]."""
        x = x + linear(attended, self.attention_out)
        hidden = swiglu(linear(rms_norm(x, self.mlp_norm, self.config.norm_eps), self.gate_up))
        return x + linear(hidden, self.down)

    def mlp_input(self, x: Tensor, attended: Tensor) -> Tensor:
        """Return the normed input [N, D] of the MLP's first projection; arguments as in `finish`."""
        return rms_norm(x + linear(attended, self.attention_out), self.mlp_norm, self.config.norm_eps)


class Decoder(nn.Module):
    """Token ids to final hidden states; query and key rows are kept interleaved (see ops.rotate)."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Parameter(torch.empty(config.vocab_size, config.width))
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.layers))
        self.norm = nn.Parameter(torch.ones(config.width))
        self.head = None if config.tie_embeddings else nn.Parameter(torch.empty_like(self.embedding))
        self.recompute = False
        """Whether the backward pass recomputes each layer from its input."""
        self._turns = torch.empty(0, config.head_width // 2, dtype=torch.complex64)

    @property
    def output_weight(self) -> Tensor:
        """The [V, D] matrix that maps hidden states to logits."""
        return self.embedding if self.head is None else self.head

    def turns(self, positions: Tensor) -> Tensor:
        """Return the rotary turns, complex [N, 1, C/2], of positions [N] (computed in float32, cached)."""
        return self.turn_table(int(positions.max()) + 1 if positions.numel() else 1)[positions].unsqueeze(1)

    def turn_table(self, length: int) -> Tensor:
        """Return the turns of positions 0..length-1 (or more), complex [>= length, C/2]."""
        device = self.embedding.device
        if length > self._turns.shape[0] or self._turns.device != device:
            size = max(256, 1 << (length - 1).bit_length())
            # Outside inference mode: training may reuse a table built during generation.
            with torch.inference_mode(False):
                frequencies, length_factor = self._frequencies()
                angles = torch.arange(size).float().unsqueeze(1) * frequencies
                turns = torch.complex(angles.cos(), angles.sin())
                self._turns = (turns if length_factor == 1.0 else turns * length_factor).to(device)
        return self._turns

    def _frequencies(self) -> tuple[Tensor, float]:
        """Return the angle of each pair of features per position [C/2], and the factor on queries and keys."""
        c = self.config
        if c.scaled_rope is not None:
            return scaled_frequencies(c.scaled_rope, head_width=c.head_width, max_positions=c.max_positions)
        exponents = torch.arange(0, c.head_width, 2, dtype=torch.int64).float()
        return 1.0 / (c.rope_theta ** (exponents / c.head_width)), 1.0

    def initialize(self, seed: int) -> None:
        """Draw matrices from N(0, initializer_range), residual outputs scaled down by sqrt(2 * layers).

        Parameters are drawn in order, so a seed gives the same weights everywhere (GPT-2, 2.3).
        """
        generator = torch.Generator().manual_seed(seed)
        std = self.config.initializer_range
        with torch.no_grad():
            for name, parameter in self.named_parameters():
                if parameter.ndim == 2:
                    scale = (2 * self.config.layers) ** -0.5 if name.endswith(("attention_out", "down")) else 1.0
                    drawn = torch.empty(parameter.shape).normal_(0.0, std * scale, generator=generator)
                    parameter.copy_(drawn)

    def forward(
        self,
        packed: Packed,
        rows: Tensor | None = None,
        *,
        projections: list[Tensor] | None = None,
        mlp_inputs: list[Tensor] | None = None,
    ) -> Tensor:
        """Return final hidden states [N, D] of a pack, or [L, D] of its tokens `rows` [L] alone.

        Every layer's rotated queries, keys and values [N, (H + 2G) * C] are appended to `projections`, and its
        MLP's input [N, D] to `mlp_inputs`.
        """
        c = self.config
        x = torch.nn.functional.embedding(packed.tokens, self.embedding)
        turns = self.turns(packed.positions)
        again = self.recompute and torch.is_grad_enabled() and projections is None and mlp_inputs is None
        for index, layer in enumerate(self.layers):
            # After the last attention nothing reads the other tokens.
            given = {"plan": packed.attention, "rows": rows if index == c.layers - 1 else None}
            # Call the layer as a module: a ZeRO 3 engine fetches and releases its weights in hooks on the call.
            if again:  # Only the layer's input is kept (Chen et al. 2016, arXiv:1604.06174).
                x = checkpoint(layer, x, turns, **given, use_reentrant=False, preserve_rng_state=False)
            else:
                x = layer(x, turns, **given, projections=projections, mlp_inputs=mlp_inputs)
        return rms_norm(x, self.norm, c.norm_eps)
