"""TransformersPolicy: any causal language model of transformers behind the Policy interface, with LoRA.

Slower than the native decoder (rows are padded, prompts are repeated), equal in meaning.

Shapes: N tokens of a pack, B rows, W widest row, D width, M positions, V vocabulary, R rows in generation.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from components.contract.errors import InputError
from components.modeling.loading.packed_tensor import pack_layers
from components.modeling.loading.quantised import save_unpacked, unpacking
from components.modeling.loading.router_loss import router_loss
from components.modeling.loading.steering import steering
from components.modeling.models.finite import check_finite
from components.modeling.models.folder import load_tokenizer, padding_id, read_config, read_generation_config
from components.modeling.models.hosted_weights import layers_of, named_weights
from components.modeling.models.lora import LoraConfig, add_adapters, merged_weights, say_untied
from components.modeling.models.policy import Gather, Policy, held
from components.modeling.models.session import Session
from components.modeling.packing.packed import Packed
from components.modeling.text.turn_ends import check_vocabulary, find_turn_ends

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast


ROUNDING_STEPS = 8
"""Steps of a low precision by which two ways to compute the same logits may differ."""


class TransformersPolicy(Policy):
    """A policy that transformers runs."""

    backend = "transformers"

    def __init__(
        self,
        model: PreTrainedModel,
        config: Mapping[str, Any],
        tokenizer: PreTrainedTokenizerFast | None,
        lora: LoraConfig | None,
        generation: dict[str, Any] | None = None,
    ) -> None:
        """`config` is config.json as stored: transformers fills in default ends where it has none."""
        self.config = model.config.get_text_config()
        self.tokenizer = tokenizer
        self.lora = lora
        self.vocab_size = self.config.vocab_size
        self.width = self.config.hidden_size
        # Recurrent and ALiBi models have no limit.
        self.max_positions = getattr(self.config, "max_position_embeddings", None) or sys.maxsize
        self.generation = generation
        self.ends = find_turn_ends(tokenizer, config, generation)
        check_vocabulary(self.ends, tokenizer, self.vocab_size)
        self.pad_id = padding_id(self.config.to_dict(), tokenizer)
        self.module: nn.Module = model.eval() if lora is None else add_adapters(model, lora)
        self._recompute = False
        if lora is not None and lora.bits is not None:
            self.recompute_layers()  # or the graph of a pass would hold every layer's weights unpacked
        self._balance, self._balancing = router_loss(self.model), False
        self._router_loss: Tensor | None = None
        self._check_logits()

    @classmethod
    def load(cls, folder: Path, *, device: str, dtype: torch.dtype, lora: LoraConfig | None) -> TransformersPolicy:
        """Load a Hugging Face folder, from safetensors only and without running code from the folder."""
        from transformers import AutoModelForCausalLM
        from transformers.utils import logging

        logging.disable_progress_bar()
        config = read_config(folder)
        packed = unpacking(config)
        model = AutoModelForCausalLM.from_pretrained(
            folder, dtype=dtype, use_safetensors=True, trust_remote_code=False, local_files_only=True, **packed
        )
        check_finite(model, folder)
        if packed:
            save_unpacked(model)
        embedding, head = model.get_input_embeddings(), model.get_output_embeddings()
        if embedding is not None and head is not None and embedding.weight is not head.weight:
            say_untied(model)  # a differing head under the flag is loaded apart
        if lora is not None and lora.bits is not None:
            pack_layers(layers_of(model), device)
        return cls(model.to(device), config, load_tokenizer(folder), lora, read_generation_config(folder))

    @property
    def model(self) -> PreTrainedModel:
        """The transformers model, with any adapters."""
        return self.module if self.lora is None else self.module.get_base_model()

    def hidden(self, packed: Packed, layer: int = -1) -> Tensor:
        """Return hidden states [N, D] of a layer; rows are padded and prompts repeated."""
        rows, where = _unpack(packed)
        tokens, mask = _pad(rows, self.pad_id, self.device, left=False)
        balance = self._balance if self._balancing else None
        extra = {} if balance is None else {"output_router_logits": True}
        depth = None if layer == -1 else self.layer_index(layer)
        if depth is not None:
            extra["output_hidden_states"] = True
        with self._asking_for_recomputation():
            out = self.model.base_model(input_ids=tokens, attention_mask=mask, use_cache=False, **extra)
        self._router_loss = None if balance is None else balance(out.router_logits, mask)
        found = out.last_hidden_state if depth is None else out.hidden_states[depth]
        return found.flatten(0, 1)[where.to(self.device)]

    @contextmanager
    def steer(self, directions: Mapping[int, Tensor]) -> Iterator[None]:
        """Add directions [D] to the states of layers inside, by hooks on the blocks."""
        given = {self.layer_index(layer): value.to(self.device, self.pass_dtype) for layer, value in directions.items()}
        with steering(self.layers(), given):
            yield

    @property
    def asks_for_balance(self) -> bool:
        """Whether config.json has `output_router_logits`, by which transformers adds the loss."""
        return self._balance is not None

    @contextmanager
    def balancing_experts(self) -> Iterator[None]:
        """Compute the load-balancing loss of each pass inside."""
        self._balancing = True
        try:
            yield
        finally:
            self._balancing = False

    def take_router_loss(self) -> Tensor | None:
        """Return the load-balancing loss of the latest pass, times its coefficient, if the config asks for it."""
        found, self._router_loss = self._router_loss, None
        return found

    def logits(self, hidden: Tensor) -> Tensor:
        """Return logits [M, V] of hidden states [M, D], with the architecture's scaling and capping."""
        logits = self.model.get_output_embeddings()(hidden)
        settings = self.config.to_dict()
        logits = logits * settings.get("logit_scale", 1.0) / settings.get("logits_scaling", 1.0)
        cap = settings.get("final_logit_softcapping")
        return logits if cap is None else cap * torch.tanh(logits / cap)

    def session(
        self, prompts: Sequence[Sequence[int]], counts: Sequence[int], max_new_tokens: int
    ) -> TransformersSession:
        """Return a generation session on past_key_values."""
        return TransformersSession(self.model, prompts, counts, self.pad_id)

    def export(self, folder: Path) -> None:
        """Write config and safetensors of a Hugging Face folder; adapters are merged into the weights."""
        self.model.save_pretrained(folder, state_dict=None if self.lora is None else merged_weights(self.module))
        self.save_generation(folder)

    def export_config(self, folder: Path) -> None:
        """Write config.json and generation_config.json."""
        self.model.config.save_pretrained(folder)
        self.save_generation(folder)

    def named_weights(self, gather: Gather = held) -> Iterator[tuple[str, Tensor]]:
        """Yield all weights by their names in the model's files: first those of no layer, then layer after layer."""
        return named_weights(self.module, self.model, gather)

    def recompute_layers(self) -> None:
        """Make backward passes recompute each layer; raise InputError if the architecture cannot."""
        model = self.model
        if not model.supports_gradient_checkpointing:
            raise InputError(f"{type(model).__name__} cannot compute layers again: set `backend: {{recompute: false}}`")
        # its name until transformers 5
        enable = getattr(model, "activation_checkpointing_enable", None) or model.gradient_checkpointing_enable
        enable({"use_reentrant": False})
        self._recompute = True

    def layers(self) -> list[nn.Module]:
        """Return the blocks that the architecture names as indivisible."""
        found = layers_of(self.model)
        if not found:
            raise InputError(f"{type(self.model).__name__} names no layers to shard: take another trainer than fsdp")
        return found

    @contextmanager
    def _asking_for_recomputation(self) -> Iterator[None]:
        """Set only the layers to training mode inside: their submodules have no dropout, and generation its caches."""
        from transformers.modeling_layers import GradientCheckpointingLayer

        parts = self.model.modules() if self._recompute else ()
        layers = [part for part in parts if isinstance(part, GradientCheckpointingLayer)]
        for layer in layers:
            layer.training = True
        try:
            yield
        finally:
            for layer in layers:
                layer.training = False

    def _check_logits(self) -> None:
        """Refuse architectures whose logits are not their output matrix applied to the last hidden state."""
        packed = Packed.from_sequences([[0, 1 % self.vocab_size]], self.device, keep_last=True)
        with torch.inference_mode():
            ours = self.logits(self.hidden(packed))
            theirs = self.model(input_ids=packed.tokens.unsqueeze(0), use_cache=False).logits[0]
        # In bfloat16 each of the two may round at other places: a few of its steps at the size of the largest logit.
        theirs = theirs.float()
        low = theirs.abs().max() * torch.finfo(ours.dtype).eps * ROUNDING_STEPS if self.low_precision else 0.0
        if not torch.allclose(ours.float(), theirs, atol=max(1e-3, float(low)), rtol=1e-2):
            kind = type(self.model).__name__
            raise InputError(f"{kind} is not supported: its logits are not a linear map of its hidden states")


class TransformersSession(Session):
    """Rows of one chunk on transformers' own cache, prompts padded on the left."""

    def __init__(
        self, model: PreTrainedModel, prompts: Sequence[Sequence[int]], counts: Sequence[int], pad_id: int
    ) -> None:
        self.model = model
        self.tokens, self.mask = _pad(prompts, pad_id, model.device, left=True)
        self.prompt_of = torch.repeat_interleave(torch.tensor(counts, device=model.device))
        self.takes_positions = "position_ids" in inspect.signature(model.forward).parameters
        self.cache: Any = None

    def start(self) -> Tensor:
        """Encode the prompts once; return logits [R, V] of every row's first response token."""
        positions = (self.mask.cumsum(1) - 1).clamp_(min=0)
        logits = self._forward(self.tokens, positions)
        self.keep(self.prompt_of)
        return logits[self.prompt_of]

    def step(self, tokens: Tensor) -> Tensor:
        """Append tokens [R]; return logits [R, V] of the next ones."""
        positions = self.mask.sum(1, keepdim=True)
        self.mask = torch.cat((self.mask, self.mask.new_ones(len(tokens), 1)), dim=1)
        return self._forward(tokens.unsqueeze(1), positions)

    def keep(self, rows: Tensor) -> None:
        """Keep only the given rows."""
        self.mask = self.mask[rows]
        self.cache.batch_select_indices(rows)

    def _forward(self, tokens: Tensor, positions: Tensor) -> Tensor:
        extra = {"position_ids": positions} if self.takes_positions else {}
        out = self.model(
            input_ids=tokens,
            attention_mask=self.mask,
            past_key_values=self.cache,
            use_cache=True,
            logits_to_keep=1,
            **extra,
        )
        self.cache = out.past_key_values
        return out.logits[:, -1]


def _pad(rows: Sequence[Sequence[int]], pad_id: int, device: torch.device, *, left: bool) -> tuple[Tensor, Tensor]:
    """Return tokens [B, W] and their attention mask [B, W] (1 at content)."""
    width = max(map(len, rows))
    tokens = torch.full((len(rows), width), pad_id)
    mask = torch.zeros(len(rows), width, dtype=torch.long)
    for index, row in enumerate(rows):
        at = slice(width - len(row), width) if left else slice(0, len(row))
        tokens[index, at] = torch.as_tensor(row, dtype=torch.long)
        mask[index, at] = 1
    return tokens.to(device), mask.to(device)


def _unpack(packed: Packed) -> tuple[list[list[int]], Tensor]:
    """Return the whole rows of a pack, and [N] the index of each of its tokens in the flattened padded rows."""
    tokens = packed.tokens.tolist()
    rows: list[list[int]] = []
    places: list[tuple[int, int, int, int]] = []
    shared = {s.prefix_start for s in packed.segments if s.prefix_length}
    placed: set[int] = set()
    for segment in packed.segments:
        if segment.prefix_length == 0 and segment.start in shared:
            continue  # A prompt: computed in the row of its first response.
        prefix = tokens[segment.prefix_start : segment.prefix_start + segment.prefix_length]
        own = tokens[segment.start : segment.start + segment.length]
        if segment.prefix_length and segment.prefix_start not in placed:
            placed.add(segment.prefix_start)
            places.append((segment.prefix_start, segment.prefix_length, len(rows), 0))
        places.append((segment.start, segment.length, len(rows), segment.prefix_length))
        rows.append(prefix + own)
    width = max(map(len, rows))
    where = torch.empty(len(tokens), dtype=torch.long)
    for start, length, row, column in places:
        where[start : start + length] = torch.arange(length) + row * width + column
    return rows, where
