"""A decoder of which this rank has a part: some heads, some features of each MLP, some tokens of the vocabulary.

Shoeybi et al. 2019 (arXiv:1909.08053), section 3: two sums over the ranks in each layer's forward pass, and two in its
backward pass. Norms and what they read are the same on all ranks.

Shapes: N tokens, D model width, V vocabulary.
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import torch
from torch import Tensor, nn

from components.modeling.models.cut import Cut
from components.modeling.native.decoder import Decoder, Layer
from components.modeling.native.decoder_config import DecoderConfig
from components.modeling.native.ops import linear
from components.modeling.native.tensor.collectives import entering, gathered, leaving, parts_of_all
from components.modeling.native.tensor.cuts import BY_ROWS, cuts_of, move_adapters, part_config, set_weight
from components.modeling.ranks import ranks_along
from components.runtime.system.mesh import TENSOR


class PartedLayer(Layer):
    """One transformer block with this rank's heads and MLP features; its config has their counts."""

    def _times(self, x: Tensor, name: str) -> Tensor:
        """Return the product with this rank's rows of a matrix, or the sum of those with all ranks' columns."""
        return super()._times(entering(x), name) if name in BY_ROWS else leaving(super()._times(x, name))


class PartedDecoder(Decoder):
    """A part of a decoder, with its interface; logits are whole."""

    layer_type = PartedLayer
    parted = True

    def __init__(self, whole: DecoderConfig, cuts: dict[str, Cut]) -> None:
        """`cuts` has how each parameter is cut, by its name."""
        super().__init__(part_config(whole, ranks_along(TENSOR).count))
        self.whole_config, self.cuts = whole, cuts

    @classmethod
    def of(cls, decoder: Decoder) -> PartedDecoder:
        """Return this rank's part of a decoder, of its weights too where they are in memory."""
        with torch.device("meta"):
            part = cls(decoder.config, dict(cuts_of(decoder, ranks_along(TENSOR).count)))
        part.recompute = decoder.recompute
        for mine, theirs in zip(part.layers, decoder.layers, strict=True):
            move_adapters(cast(Layer, mine), cast(Layer, theirs))
        for name, weight in decoder.named_parameters():
            own = part.own_part(name, weight.detach())
            set_weight(part, name, nn.Parameter(own, requires_grad=weight.requires_grad))
        return part

    def embed(self, tokens: Tensor) -> Tensor:
        """Return what the first layer reads, [N, D]: each rank looks up the tokens of its part."""
        own = tokens - ranks_along(TENSOR).index * self.config.vocab_size
        elsewhere = (own < 0) | (own >= self.config.vocab_size)
        x = torch.nn.functional.embedding(own.masked_fill(elsewhere, 0), self.embedding)
        return self.scaled(leaving(x.masked_fill(elsewhere.unsqueeze(-1), 0.0)))

    def logits(self, hidden: Tensor) -> Tensor:
        """Return logits [N, V] of final hidden states [N, D]."""
        return self.capped(gathered(linear(entering(hidden), self.output_weight)))

    def own_part(self, name: str, whole: Tensor) -> Tensor:
        """Return this rank's part of a whole parameter."""
        ranks = ranks_along(TENSOR)
        return self.cuts[name].part(whole, ranks.index, ranks.count)

    def joined(self, name: str, part: Tensor) -> Tensor:
        """Return the whole parameter of which each rank has a part; all of them must call it."""
        cut = self.cuts[name]
        return part if cut.alike else cut.joined(parts_of_all(part))

    def whole_layer(self, index: int) -> Layer:
        """Return a layer with whole weights, put together from all ranks' parts; all of them must call it."""
        part = cast(Layer, self.layers[index])
        with torch.device("meta"):
            whole = Layer(self.whole_config, part.window)
        move_adapters(whole, part)
        for name, weight in part.named_parameters():
            joined = self.joined(f"layers.{index}.{name}", weight.detach())
            set_weight(whole, name, nn.Parameter(joined, requires_grad=False))
        return whole

    def whole_outside(self) -> Decoder:
        """Return the decoder without its layers and with whole weights; all ranks must call it."""
        with torch.device("meta"):
            outside = Decoder(replace(self.whole_config, layers=0, windows=()))
        for name, weight in self.named_parameters(recurse=False):
            setattr(outside, name, nn.Parameter(self.joined(name, weight.detach()), requires_grad=False))
        return outside
