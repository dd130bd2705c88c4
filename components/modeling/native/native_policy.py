"""NativePolicy: a checkpoint of a family that the native decoder knows."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor, nn

from components.contract.errors import InputError
from components.modeling.models.cut import Cut
from components.modeling.models.folder import load_tokenizer, padding_id, read_generation_config, write_json
from components.modeling.models.lora import LoraConfig
from components.modeling.models.model_config import ModelConfig
from components.modeling.models.model_sizes import ModelSizes
from components.modeling.models.policy import Gather, Policy, held
from components.modeling.native.adapters import add_adapters
from components.modeling.native.allocator import keep_freed_blocks
from components.modeling.native.checkpoints.config import decoder_config, llama_config
from components.modeling.native.checkpoints.weights import (
    export_weights,
    import_weights,
    named_weights,
    read_weights,
    write_weights,
)
from components.modeling.native.decode import NativeSession
from components.modeling.native.decoder import Decoder
from components.modeling.native.decoder_config import DecoderConfig
from components.modeling.native.nf4 import pack
from components.modeling.native.product_choice import choose
from components.modeling.native.rotary import Rope
from components.modeling.native.stored import StoredDecoder
from components.modeling.native.tensor.parted import PartedDecoder
from components.modeling.packing.head import Head
from components.modeling.packing.packed import Packed
from components.modeling.ranks import Ranks, ranks_along
from components.modeling.text.turn_ends import check_vocabulary, find_turn_ends
from components.runtime.system.mesh import TENSOR

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


class NativePolicy(Policy):
    """A policy on the native decoder."""

    backend = "native"
    divisible = True

    def __init__(
        self,
        module: Decoder,
        config: Mapping[str, Any],
        tokenizer: PreTrainedTokenizerFast | None,
        generation: dict[str, Any] | None = None,
        stored: StoredDecoder | None = None,
    ) -> None:
        self.module: Decoder = module
        self._stored = stored
        self.config = dict(config)
        """The checkpoint's config.json, written back on save."""
        self.tokenizer = tokenizer
        self.vocab_size = module.config.vocab_size
        self.width = module.config.width
        self.max_positions = min(module.config.max_positions, module.config.rope.longest or sys.maxsize)
        self.generation = generation
        self.ends = find_turn_ends(tokenizer, config, generation)
        check_vocabulary(self.ends, tokenizer, self.vocab_size)
        self.pad_id = padding_id(config, tokenizer)

    @classmethod
    def load(
        cls,
        folder: Path,
        config: Mapping[str, Any],
        *,
        device: str,
        dtype: torch.dtype,
        lora: LoraConfig | None = None,
        sharded: bool = False,
        weights: Mapping[str, Tensor] | None = None,
    ) -> NativePolicy:
        """Load a Hugging Face folder whose architecture the native decoder supports, and add adapters, if given.

        `weights` stand in for the folder's. `sharded` leaves them on disk, beside adapters on the host: a trainer
        shards one layer at a time.
        """
        _prepare_process(device, dtype)
        with torch.device("meta"):
            decoder = Decoder(decoder_config(config))
        if sharded and lora is None:
            stored = StoredDecoder(folder, decoder, dtype)
            return cls(decoder.to(dtype), config, load_tokenizer(folder), read_generation_config(folder), stored)
        device = "cpu" if sharded else device
        # Allocated with its final device and dtype: float32 on the host first would take twice a large model's size.
        packed = lora is not None and lora.bits == 4
        decoder = decoder.to(dtype).to_empty(device="cpu" if packed else device)
        import_weights(decoder, read_weights(folder) if weights is None else weights, str(folder))
        if packed:
            pack(decoder, device)
            decoder = decoder.to(device)
        if lora is not None:
            add_adapters(decoder, lora)
        return cls(decoder, config, load_tokenizer(folder), read_generation_config(folder))

    @classmethod
    def create(
        cls,
        config: ModelConfig,
        tokenizer: PreTrainedTokenizerFast | None,
        *,
        seed: int,
        device: str,
        dtype: torch.dtype,
    ) -> NativePolicy:
        """Initialise a new Llama."""
        _prepare_process(device, dtype)
        sizes = _new_decoder_config(config, tokenizer)
        decoder = Decoder(sizes)
        decoder.initialize(seed)
        pad, eos = (None, None) if tokenizer is None else (tokenizer.pad_token_id, tokenizer.eos_token_id)
        stored = llama_config(sizes, pad_id=pad, eos_id=eos)
        return cls(decoder.to(device, dtype), stored, tokenizer)

    def hidden(self, packed: Packed, layer: int = -1) -> Tensor:
        """Return hidden states [N, D] of a layer; later layers are not computed."""
        depth = self.layer_index(layer)
        return self.module(packed, depth=depth if depth < len(self.module.layers) else None)

    @contextmanager
    def steer(self, directions: Mapping[int, Tensor]) -> Iterator[None]:
        """Add directions [D] to the states of layers inside."""
        before, weight = self.module.directions, self.module.norm
        given = {self.layer_index(layer): direction.to(weight) for layer, direction in directions.items()}
        self.module.directions = before | {at: value + before.get(at, 0) for at, value in given.items()}
        try:
            yield
        finally:
            self.module.directions = before

    def predicting(self, packed: Packed) -> Tensor:
        """Return hidden states [M, D] at the positions that predict a target, skipping work for the others."""
        rows, which = packed.predictors
        return self.module(packed, rows).index_select(0, which)

    def mlp_input(self, packed: Packed) -> Tensor:
        """Return the normed input [N, D] of the last layer's MLP."""
        found: list[Tensor] = []
        self.module(packed, mlp_inputs=found)
        return found[-1]

    def logits(self, hidden: Tensor) -> Tensor:
        """Return logits [M, V] of hidden states [M, D]."""
        return self.module.logits(hidden)

    def head(self) -> Head:
        """Return the output matrix and the cap."""
        ranks = ranks_along(TENSOR) if self.module.parted else Ranks()
        return Head(self.module.output_weight, self.module.config.logit_cap, ranks)

    def session(self, prompts: Sequence[Sequence[int]], counts: Sequence[int], max_new_tokens: int) -> NativeSession:
        """Return a generation session on the native decoder."""
        return NativeSession(self.module, prompts, counts, max_new_tokens)

    def recompute_layers(self) -> None:
        """Make backward passes recompute each layer from its input."""
        self.module.recompute = True

    def layers(self) -> list[nn.Module]:
        """Return the decoder's layers."""
        return list(self.module.layers)

    def part(self) -> None:
        """Keep this rank's part of each matrix, where a tensor group computes each batch together."""
        ranks = ranks_along(TENSOR)
        if ranks.count == 1 or self.module.parted:
            return
        if any(layer.packed for layer in self.module.layers):
            raise InputError("lora.bits: weights in 4 bits are not parted; leave them or tensor_parallel out")
        sizes = ModelSizes.from_config(self.config)
        if sizes is not None and (refusal := sizes.why_not_parted(ranks.count)):
            raise InputError(refusal)
        self.module = PartedDecoder.of(self.module)
        if self._stored is not None:
            self._stored.decoder = self.module

    @property
    def cuts(self) -> Mapping[str, Cut]:
        """Return how parameters are cut."""
        return self.module.cuts if isinstance(self.module, PartedDecoder) else {}

    def copy(self) -> Self:
        """Return an independent frozen copy; weights that are still on disk it reads from there."""
        other = super().copy()
        other._stored = None if self._stored is None else self._stored.of(other.module)
        return other

    def materialize(self, part: nn.Module) -> None:
        """Read the weights of a layer, or of the rest, if loading left them on disk."""
        if self._stored is not None:
            self._stored.fill(part)

    def row_blocks(self) -> dict[str, tuple[int, ...]]:
        """Return the row counts of the fused projections."""
        c = self.module.config
        kv = c.kv_heads * c.head_width
        blocks: dict[str, tuple[int, ...]] = {}
        for index in range(c.layers):
            blocks[f"layers.{index}.qkv"] = (c.heads * c.head_width, kv, kv)
            blocks[f"layers.{index}.gate_up"] = (c.mlp_width, c.mlp_width)
            for name, adapter in self.module.layers[index].adapters.items():
                for factor, rows in adapter.row_blocks().items():
                    blocks[f"layers.{index}.adapters.{name}.{factor}"] = rows
        return blocks

    def export(self, folder: Path) -> None:
        """Write config and safetensors of a Hugging Face folder."""
        self.export_these(folder, export_weights(self.module))

    def export_these(self, folder: Path, weights: Mapping[str, Tensor]) -> None:
        """Write config and safetensors of a Hugging Face folder from what `named_weights` gave."""
        write_weights(folder, weights)
        self.export_config(folder)

    def export_config(self, folder: Path) -> None:
        """Write config.json and generation_config.json."""
        name = str(self.pass_dtype).removeprefix("torch.")
        write_json(folder / "config.json", {**self.config, "dtype": name})
        self.save_generation(folder)

    def named_weights(self, gather: Gather = held) -> Iterator[tuple[str, Tensor]]:
        """Yield all weights by their transformers names: first those of no layer, then layer after layer."""
        return named_weights(self.module, gather)


def _prepare_process(device: str, dtype: torch.dtype) -> None:
    """Set up the allocator and, for what the CPU computes in float32, the library of matrix products."""
    keep_freed_blocks()
    if device == "cpu" and dtype == torch.float32:
        choose()


def _new_decoder_config(config: ModelConfig, tokenizer: PreTrainedTokenizerFast | None) -> DecoderConfig:
    if config.vocab_size is None and tokenizer is None:
        raise InputError("a new model needs vocab_size or a tokenizer")
    vocab_size = config.vocab_size if config.vocab_size is not None else len(tokenizer or ())
    if tokenizer is not None and vocab_size < len(tokenizer):
        raise InputError(f"vocab_size {vocab_size} is smaller than the tokenizer's {len(tokenizer)} tokens")
    return DecoderConfig.sized(
        replace(ModelSizes.new(config), vocab=vocab_size),
        rope=Rope(theta=config.rope_theta),
        norm_eps=1e-6,
        max_positions=config.max_positions,
    )
