"""A decoder whose weights are still on disk: they are read layer by layer, so that no process holds all of them."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn

from components.contract.model_folders.headers import EMBEDDING
from components.modeling.models.finite import check_finite
from components.modeling.models.stored_weights import StoredWeights
from components.modeling.native.checkpoints.weights import import_weights
from components.modeling.native.decoder import Decoder

NORM = "model.norm.weight"


class StoredDecoder:
    """Fills the parts of a decoder on the meta device from a Hugging Face folder."""

    def __init__(self, folder: Path, decoder: Decoder, dtype: torch.dtype) -> None:
        self.decoder, self._dtype, self._folder, self._source = decoder, dtype, folder, str(folder)
        self._weights = StoredWeights(folder)

    def of(self, decoder: Decoder) -> StoredDecoder:
        """Return what fills another decoder of the same config from the same files."""
        other = copy.copy(self)
        other.decoder = decoder
        return other

    def fill(self, part: nn.Module) -> None:
        """Give a layer its weights on the CPU, or everything that belongs to no layer for any other module.

        Raises InputError when weights are missing, unknown or of another shape.
        """
        for index, layer in enumerate(self.decoder.layers):
            if layer is part:
                layer.load_state_dict(self._own(self._layer(index), f"layers.{index}."), assign=True)
                return
        self.decoder.load_state_dict(self._own(self._rest(), ""), strict=False, assign=True)

    def _own(self, part: nn.Module, prefix: str) -> dict[str, Tensor]:
        """Return what this rank has of a part of the decoder."""
        return {name: self.decoder.own_part(prefix + name, whole) for name, whole in part.state_dict().items()}

    def _layer(self, index: int) -> nn.Module:
        """Return one layer's weights, read as those of a model of one layer and one token."""
        config = replace(self.decoder.whole_config, layers=1, windows=(), vocab_size=1, tie_embeddings=True)
        width, prefix = config.width, f"model.layers.{index}."
        weights: dict[str, Tensor] = {EMBEDDING: torch.zeros(1, width), NORM: torch.zeros(width)}
        for name in self._weights:
            if name.startswith(prefix):
                weights[name.replace(prefix, "model.layers.0.", 1)] = self._weights[name]
        return self._read(Decoder(config), weights, f"{self._source}, layer {index}").layers[0]

    def _rest(self) -> Decoder:
        layers = tuple(f"model.layers.{index}." for index in range(self.decoder.config.layers))
        weights = {name: self._weights[name] for name in self._weights if not name.startswith(layers)}
        return self._read(Decoder(replace(self.decoder.whole_config, layers=0, windows=())), weights, self._source)

    def _read(self, decoder: Decoder, weights: dict[str, Tensor], source: str) -> Decoder:
        decoder = decoder.to(self._dtype)
        import_weights(decoder, weights, source)
        check_finite(decoder, self._folder)
        return decoder
