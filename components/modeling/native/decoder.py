"""The native decoder: a transformer of Llama's kind in plain torch with fused projections.

What families differ in is DecoderConfig's; `checkpoints` reads it from config.json.

Shapes: N tokens, D model width, H query heads, G key-value heads, C head width, F MLP width, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, cast

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from components.modeling.native.attention.attend import attend
from components.modeling.native.attention.capped import cap
from components.modeling.native.decoder_config import DecoderConfig
from components.modeling.native.ops import geglu, linear, rms_norm, rms_norm_from_one, rotate, swiglu
from components.modeling.native.rotary import TurnTable
from components.modeling.packing.attention_plan import AttentionPlan
from components.modeling.packing.packed import Packed

NORMS = {"rms": rms_norm, "rms_from_one": rms_norm_from_one}
GATES = {"swiglu": swiglu, "geglu": geglu}


class Layer(nn.Module):
    """One transformer block; projections that read the same input are one matrix."""

    def __init__(self, config: DecoderConfig, window: int | None = None) -> None:
        super().__init__()
        c = config
        self.config, self.window = config, window
        self.normed, self.gated = NORMS[c.norm], GATES[c.activation]
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
        self.post_attention_norm = nn.Parameter(torch.ones(c.width)) if c.post_norms else None
        self.post_mlp_norm = nn.Parameter(torch.ones(c.width)) if c.post_norms else None
        self.adapters, self.packed = nn.ModuleDict(), nn.ModuleDict()
        """By the name of a matrix: what LoRA adds to it, and the matrix itself in 4 bits."""
        self.plain = True
        """Whether both are empty."""

    def forward(
        self,
        x: Tensor,
        turns: Tensor,
        *,
        plan: AttentionPlan | None = None,
        attend_to: Callable[[Tensor], Tensor] | None = None,
        rows: Tensor | None = None,
        projections: list[Tensor] | None = None,
        mlp_inputs: list[Tensor] | None = None,
    ) -> Tensor:
        """Return the block's output of x [N, D], of the tokens `rows` alone if given; lists as in Decoder.forward.

        Attention is among the tokens of the `plan`, or what `attend_to` gives for the fused projections.
        """
        qkv = self.project(x, turns)
        if projections is not None:
            projections.append(qkv)
        c = self.config
        if attend_to is not None:
            attended = attend_to(qkv)
        else:
            assert plan is not None
            attended = attend(qkv, plan, c.heads, c.kv_heads, self.window, c.attention_cap)
        if mlp_inputs is not None:
            mlp_inputs.append(self.mlp_input(x, attended))
        if rows is not None:
            x, attended = x.index_select(0, rows), attended.index_select(0, rows)
        return self.finish(x, attended)

    def matrix(self, name: str) -> Tensor:
        """Return one of the four matrices, unpacked if it is packed."""
        return self.packed[name].weight() if name in self.packed else getattr(self, name)

    def _times(self, x: Tensor, name: str) -> Tensor:
        """Return x [N, K] @ matrix [F, K].T, with the adapter's part."""
        if self.plain:
            return linear(x, getattr(self, name))
        out = self.packed[name](x) if name in self.packed else linear(x, getattr(self, name))
        return self.adapters[name](x, out) if name in self.adapters else out

    def project(self, x: Tensor, turns: Tensor) -> Tensor:
        """Return fused, rotated queries, keys and values [N, (H + 2G) * C] of x [N, D]."""
        c = self.config
        return rotate(self._project(x), turns, c.heads + c.kv_heads, c.head_width)

    def _project(self, x: Tensor) -> Tensor:
        c = self.config
        qkv = self._times(self.normed(x, self.attention_norm, c.norm_eps), "qkv")
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
        query = self.normed(query, self.query_norm, c.norm_eps)
        key = self.normed(key, self.key_norm, c.norm_eps)
        return torch.cat((query, key, value), dim=-2).flatten(-2)

    def finish(self, x: Tensor, attended: Tensor) -> Tensor:
        """Return the block's output [N, D] from its input x and the heads' outputs [N, H * C]."""
        x = self._after_attention(x, attended)
        hidden = self.gated(self._times(self.normed(x, self.mlp_norm, self.config.norm_eps), "gate_up"))
        return x + self._post_normed(self._times(hidden, "down"), self.post_mlp_norm)

    def mlp_input(self, x: Tensor, attended: Tensor) -> Tensor:
        """Return the normed input [N, D] of the MLP's first projection; arguments as in `finish`."""
        return self.normed(self._after_attention(x, attended), self.mlp_norm, self.config.norm_eps)

    def _after_attention(self, x: Tensor, attended: Tensor) -> Tensor:
        return x + self._post_normed(self._times(attended, "attention_out"), self.post_attention_norm)

    def _post_normed(self, added: Tensor, weight: Tensor | None) -> Tensor:
        return added if weight is None else self.normed(added, weight, self.config.norm_eps)


class Decoder(nn.Module):
    """Token ids to final hidden states; query and key rows are kept interleaved (see ops.rotate)."""

    layer_type: ClassVar[type[Layer]] = Layer
    parted: ClassVar[bool] = False
    """Whether this rank has a part of each matrix, and others have the other ones."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.config = self.whole_config = config
        self.embedding = nn.Parameter(torch.empty(config.vocab_size, config.width))
        self.layers = nn.ModuleList(self.layer_type(config, config.window(index)) for index in range(config.layers))
        self.norm = nn.Parameter(torch.ones(config.width))
        self.head = None if config.tie_embeddings else nn.Parameter(torch.empty_like(self.embedding))
        self.recompute = False
        """Whether the backward pass recomputes each layer from its input."""
        self.directions: dict[int, Tensor] = {}
        """What is added to the states after so many layers, [D]; see Policy.steer."""
        ropes = [config.rope] if config.local_rope is None else [config.rope, config.local_rope]
        self._tables = [TurnTable(r, config.head_width, config.max_positions, config.query_gain) for r in ropes]

    @property
    def output_weight(self) -> Tensor:
        """The [V, D] matrix that maps hidden states to logits."""
        return self.embedding if self.head is None else self.head

    def embed(self, tokens: Tensor) -> Tensor:
        """Return what the first layer reads, [N, D], of tokens [N]."""
        return self.scaled(torch.nn.functional.embedding(tokens, self.embedding))

    def scaled(self, x: Tensor) -> Tensor:
        """Return embeddings as the first layer reads them."""
        # The factor rounds to the weights' precision, as in transformers.
        return x * torch.tensor(self.config.width**0.5, dtype=x.dtype) if self.config.scale_embeddings else x

    def final_norm(self, x: Tensor) -> Tensor:
        """Return final hidden states of the last layer's output x [N, D]."""
        return NORMS[self.config.norm](x, self.norm, self.config.norm_eps)

    def steered(self, x: Tensor, depth: int) -> Tensor:
        """Return states x [N, D] after so many layers, with the direction that is added there, if any."""
        direction = self.directions.get(depth)
        return x if direction is None else x + direction

    def logits(self, hidden: Tensor) -> Tensor:
        """Return logits [N, V] of final hidden states [N, D]."""
        return self.capped(linear(hidden, self.output_weight))

    def capped(self, logits: Tensor) -> Tensor:
        """Return logits as the model caps them, if it does."""
        return logits if self.config.logit_cap is None else cap(logits, self.config.logit_cap)

    def own_part(self, name: str, whole: Tensor) -> Tensor:
        """Return what this rank has of a whole parameter."""
        return whole

    def whole_layer(self, index: int) -> Layer:
        """Return a layer with whole weights."""
        return cast(Layer, self.layers[index])

    def whole_outside(self) -> Decoder:
        """Return what has the weights outside the layers, whole."""
        return self

    def turns(self, positions: Tensor, longest: int) -> list[Tensor]:
        """Return each layer's rotary turns, complex [N, 1, C/2], of positions [N] below `longest`."""
        tables = self.turn_tables(longest)
        return self.by_layer([table.index_select(0, positions).unsqueeze(1) for table in tables])

    def turn_tables(self, length: int) -> list[Tensor]:
        """Return the turns of positions 0..length-1 (or more), complex [>= length, C/2], one table a Rope."""
        return [table.upto(length, self.embedding.device) for table in self._tables]

    def by_layer(self, turns: list[Tensor]) -> list[Tensor]:
        """Return the turns of each layer, of those of each Rope."""
        return [turns[-1 if layer.window is not None else 0] for layer in self.layers]

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
        depth: int | None = None,
    ) -> Tensor:
        """Return final hidden states [N, D] of a pack, or [L, D] of its tokens `rows` [L] alone.

        With a `depth`, the states of all tokens after so many layers, and no later layer is computed. Every layer's
        rotated queries, keys and values [N, (H + 2G) * C] are appended to `projections`, and its MLP's input [N, D] to
        `mlp_inputs`.
        """
        x = self.steered(self.embed(packed.tokens), 0)
        turns = self.turns(packed.positions, packed.attention.widest)
        again = self.recompute and torch.is_grad_enabled() and projections is None and mlp_inputs is None
        for index, layer in enumerate(self.layers[:depth]):
            # After the last attention nothing reads the other tokens.
            given = {"plan": packed.attention, "rows": rows if index == len(self.layers) - 1 else None}
            # Call the layer as a module: a ZeRO 3 engine fetches and releases its weights in hooks on the call.
            if again:  # Only the layer's input is kept (Chen et al. 2016, arXiv:1604.06174).
                x = checkpoint(layer, x, turns[index], **given, use_reentrant=False, preserve_rng_state=False)
            else:
                x = layer(x, turns[index], **given, projections=projections, mlp_inputs=mlp_inputs)
            x = self.steered(x, index + 1)
        return self.final_norm(x) if depth is None else x
