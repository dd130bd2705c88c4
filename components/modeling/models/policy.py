"""Policy: a language model with its tokenizer behind one interface, whatever its backend."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import torch
from torch import Tensor, nn

from components.contract.errors import InputError
from components.modeling.context.part import PackPart, part_of
from components.modeling.context.passes import dividing_ranks, joined_scores
from components.modeling.models.cut import Cut
from components.modeling.models.folder import generation_config, write_json
from components.modeling.packing.head import Head
from components.modeling.packing.logprobs import LOW_PRECISION, TokenScores, score_in_chunks
from components.modeling.packing.packed import Packed
from components.modeling.ranks import ranks_along
from components.modeling.text.turn_ends import TurnEnds
from components.runtime.system.mesh import TENSOR

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

    from components.modeling.models.session import Session

Pool = Literal["mean", "last"]
"""How the states of a sequence become one vector."""
Gather = Callable[[Sequence[nn.Module]], AbstractContextManager[None]]
"""Holds the weights that these modules own themselves whole, inside; all ranks enter it in the same order."""


def held(modules: Sequence[nn.Module]) -> AbstractContextManager[None]:
    """Gather nothing: every rank holds whole weights."""
    return nullcontext()


class Policy(ABC):
    """A causal language model: hidden states of packs, logits, log-probabilities, generation, saving."""

    backend: ClassVar[str]
    divisible: ClassVar[bool] = False
    """Whether several ranks can compute one pack together; of others, each computes all."""
    module: nn.Module
    """What an optimiser trains; with LoRA only adapters require gradients."""
    tokenizer: PreTrainedTokenizerFast | None
    config: Any
    """The model's config.json, or what transformers makes of it."""
    vocab_size: int
    width: int
    max_positions: int
    ends: TurnEnds
    """How responses end."""
    pad_id: int
    """Fills rectangular tensors; never read as content."""
    compute_dtype: torch.dtype | None = None
    """Precision of passes where the weights are kept in another one; None where they are as in passes."""
    generation: dict[str, Any] | None
    """generation_config.json of the model folder, if it has one."""
    finishing: Callable[[Path], None] | None = None
    """Called with each folder that `save` wrote, to make it another kind of model's."""

    @property
    def eos_ids(self) -> tuple[int, ...]:
        """Return the tokens that end a response."""
        return self.ends.ids

    def keep_special_tokens(self, names: Sequence[str]) -> None:
        """Count these special tokens as text of responses; raise InputError for names that the tokenizer lacks."""
        if names:
            self.ends = self.ends.keeping(names, self.tokenizer)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.module.parameters()).device

    @property
    def pass_dtype(self) -> torch.dtype:
        """Precision of passes."""
        return self.compute_dtype or next(self.module.parameters()).dtype

    @property
    def low_precision(self) -> bool:
        """Whether any weight has less than float32: passes of different shapes then differ by more than rounding."""
        kept = (weight.dtype for weight in self.module.parameters())
        return any(dtype in LOW_PRECISION for dtype in (self.compute_dtype, *kept))

    @abstractmethod
    def hidden(self, packed: Packed, layer: int = -1) -> Tensor:
        """Return hidden states [N, D] of all tokens of a pack, numbered as `hidden_states` of transformers.

        Layer 0 is what the first layer reads, i what the i-th one returns; the last, or -1, is after the final norm.
        Raises InputError for a layer that the model does not have.
        """

    def features(self, packed: Packed, *, layer: int = -1, pool: Pool = "mean") -> Tensor:
        """Return one vector for each sequence of a pack with last tokens: [S, D] float32.

        mean: over the states at its targets themselves. last: the state at its last token, which has read them all. In
        bfloat16 states are rounded in the pass, so packs of other sizes differ by up to its precision.
        """
        assert packed.own is not None and packed.last is not None
        hidden = self.hidden(packed, layer).float()
        if pool == "last":
            return hidden.index_select(0, packed.last)
        sums = hidden.new_zeros(packed.num_sequences, hidden.shape[1])
        sums = sums.index_add(0, packed.sequence, hidden.index_select(0, packed.own))
        return sums / packed.target_counts.clamp(min=1).unsqueeze(1)

    @abstractmethod
    def steer(self, directions: Mapping[int, Tensor]) -> AbstractContextManager[None]:
        """Return a context in which directions [D] are added to the states of layers, in passes and in generation.

        Layers are numbered as in `hidden`; at the last one a direction is added before the final norm. An engine that
        draws for the policy has weights of its own, and is not steered.
        """

    def layer_index(self, layer: int) -> int:
        """Return a layer counted from the front, from 0 to the number of layers; raise InputError if there is none."""
        count = len(self.layers())
        if not -count - 1 <= layer <= count:
            raise InputError(f"layer {layer} of a model with {count}: 0 to {count}, or -1 for the last")
        return layer % (count + 1)

    @abstractmethod
    def logits(self, hidden: Tensor) -> Tensor:
        """Return logits [M, V] of hidden states [M, D]."""

    def head(self) -> Head | None:
        """Return what `logits` is made of, if it is one matrix product and at most a cap; None if it is not known."""
        return None

    @abstractmethod
    def session(self, prompts: Sequence[Sequence[int]], counts: Sequence[int], max_new_tokens: int) -> Session:
        """Return a generation session of counts[p] rows for each prompt p."""

    @abstractmethod
    def named_weights(self, gather: Gather = held) -> Iterator[tuple[str, Tensor]]:
        """Yield all weights by their names in the model's files, adapters merged in, layer after layer.

        They are on the policy's device, and beside the policy it holds one layer at a time; a tensor counts only until
        the next one is asked for. With a `gather` that is a collective, all ranks must take all of them.
        """

    @abstractmethod
    def export_config(self, folder: Path) -> None:
        """Write config.json and generation_config.json: what an engine needs beside weights."""

    @abstractmethod
    def export(self, folder: Path) -> None:
        """Write config and safetensors of a Hugging Face folder, without the tokenizer."""

    def save(self, folder: Path) -> None:
        """Write a Hugging Face folder: config, safetensors, tokenizer; equal weights give equal bytes."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        self.export(folder)
        self.save_tokenizer(folder)
        if self.finishing is not None:
            self.finishing(folder)

    def target_hidden(self, packed: Packed) -> Tensor:
        """Return hidden states [M, D] at the positions that predict a target.

        Where passes are divided over ranks, without gradients: `at_targets` has them.
        """
        hidden = self.at_targets(packed, lambda hidden: hidden)
        assert dividing_ranks().count == 1 or not (self.divisible and hidden.requires_grad)
        return hidden

    def at_targets(self, packed: Packed, function: Callable[[Tensor], Tensor]) -> Tensor:
        """Return [M, ...], from a function of hidden states [M', D] that predict some of the targets.

        Where passes are divided over ranks, each one calls it with its own: what it has of trained weights beside the
        policy's then gets each gradient from one rank.
        """
        part = self._divided(packed)
        found = function(self.predicting(part or packed))
        return found if part is None else part.answers.joined(found)

    def predicting(self, packed: Packed) -> Tensor:
        """Return hidden states [M, D] as `target_hidden`, from one pass of this rank."""
        return self.hidden(packed)[packed.predict]

    def _divided(self, packed: Packed) -> PackPart | None:
        """Return this rank's part of a pack where passes are divided."""
        ranks = dividing_ranks()
        return part_of(packed, ranks) if self.divisible and ranks.count > 1 else None

    def mlp_input(self, packed: Packed) -> Tensor:
        """Return the normed input [N, D] of the last layer's MLP; raise InputError if the backend cannot get it."""
        raise InputError(
            f"the {self.backend} backend does not show what enters a layer's MLP; "
            "use a model of the native decoder's families"
        )

    def target_logits(self, packed: Packed) -> Tensor:
        """Return logits [M, V] at the positions that predict a target."""
        return self.logits(self.target_hidden(packed))

    def target_logprobs(self, packed: Packed, *, temperature: float = 1.0, entropy: bool = False) -> TokenScores:
        """Return log-probabilities [M] of the targets and, if asked, entropies [M]; differentiable.

        When [M, V] is large, logits are computed in chunks and recomputed in the backward pass.
        """
        part = self._divided(packed)
        own = part or packed
        given = (self.logits, self.predicting(own), own.targets, self.vocab_size, temperature, entropy)
        scores = score_in_chunks(*given, head=self.head())
        return scores if part is None else joined_scores(scores, part)

    @property
    def asks_for_balance(self) -> bool:
        """Whether the model's config asks for a loss that makes training use experts evenly."""
        return False

    def balancing_experts(self) -> AbstractContextManager[None]:
        """Return a context whose passes leave a loss for `take_router_loss`."""
        return nullcontext()

    def take_router_loss(self) -> Tensor | None:
        """Return what training adds to the loss of the latest pass so that experts are used evenly, if anything."""
        return None

    @abstractmethod
    def recompute_layers(self) -> None:
        """Make backward passes recompute each layer from its input instead of keeping its activations."""

    def trainable(self) -> list[tuple[str, nn.Parameter]]:
        """Return the names and parameters that require gradients."""
        return [(name, p) for name, p in self.module.named_parameters() if p.requires_grad]

    @abstractmethod
    def layers(self) -> list[nn.Module]:
        """Return the layers, which are sharded one by one; each is called as a module."""

    @property
    def is_sharded(self) -> bool:
        """Whether each layer gathers its weights from all ranks when it is called (fully_shard)."""
        return any(hasattr(part, "unshard") for part in self.module.modules())

    def part(self) -> None:
        """Keep this rank's part of each matrix, where a tensor group computes each batch together.

        Raises InputError for a model that cannot be parted, and says what to do.
        """
        if (count := ranks_along(TENSOR).count) > 1:
            raise InputError(
                f"tensor_parallel {count}: the {self.backend} backend does not part a model; "
                "leave tensor_parallel out, or use a model of the native decoder's families"
            )

    @property
    def cuts(self) -> Mapping[str, Cut]:
        """Return how each parameter is cut, by name; empty where every rank has the whole model."""
        return {}

    def whole_shape(self, name: str, shape: Sequence[int]) -> Sequence[int]:
        """Return the shape of a whole parameter from that of this rank's."""
        return self.cuts[name].shape(shape, ranks_along(TENSOR).count) if self.cuts else shape

    def materialize(self, part: nn.Module) -> None:
        """Read the weights of a layer, or of the rest, into memory if loading left them on disk."""
        return

    def row_blocks(self) -> dict[str, tuple[int, ...]]:
        """Return, for parameters that hold several matrices stacked by rows, the row counts of each."""
        return {}

    def state(self) -> dict[str, Tensor]:
        """Return copies of the trainable weights on the CPU, for a checkpoint."""
        return {name: p.detach().to("cpu", copy=True) for name, p in self.trainable()}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state` returned."""
        mine = dict(self.trainable())
        if set(mine) != set(state):
            raise InputError("this checkpoint belongs to another model: its weights have other names")
        with torch.no_grad():
            for name, parameter in mine.items():
                parameter.copy_(state[name])

    def copy(self) -> Self:
        """Return an independent frozen copy, for use as a reference."""
        other = copy.copy(self)
        other.module = copy.deepcopy(self.module)
        other.module.requires_grad_(False)
        return other

    def save_generation(self, folder: Path) -> None:
        """Write generation_config.json: the model's own, with all its ends."""
        content = generation_config(self.generation, self.eos_ids, self.pad_id)
        write_json(folder / "generation_config.json", content)

    def save_tokenizer(self, folder: Path) -> None:
        """Write the tokenizer's files into a model folder."""
        if self.tokenizer is not None:
            self.tokenizer.save_pretrained(folder)
