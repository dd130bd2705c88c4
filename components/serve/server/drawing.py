"""Draws answers with transformers' own generation: a batch of requests at a time, each with its own settings and seed.

This is another implementation of the model than the one that trained it: what it measures, training code cannot hide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, GenerationConfig, LogitsProcessor, LogitsProcessorList

from components.contract.model_folders.inspection import inspect_model
from components.modeling.models.folder import padding_id, read_generation_config


@dataclass(frozen=True)
class Wanted:
    """One answer that is wanted."""

    prompt: Sequence[int]
    max_tokens: int
    temperature: float
    top_p: float
    seed: int


@dataclass
class Drawn:
    """The tokens of an answer."""

    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    """Of each token, under the distribution that it was drawn from."""
    finished: bool = False
    """Whether its last token ends it."""


class Drawer:
    """A model that transformers loaded."""

    def __init__(self, folder: Path, *, dtype: str, device: str) -> None:
        config, stored = inspect_model(folder), read_generation_config(folder) or {}
        listed = stored.get("eos_token_id", config.get("eos_token_id"))
        self.ends = frozenset([] if listed is None else listed if isinstance(listed, list) else [listed])
        self._pad = padding_id(config, None)
        self._device = device
        self._model: Any = AutoModelForCausalLM.from_pretrained(
            folder,
            dtype=getattr(torch, dtype),
            local_files_only=True,
            use_safetensors=True,
            trust_remote_code=False,
        )
        self._model.to(device).eval()
        self._model.generation_config = GenerationConfig()  # nothing of the folder's beside what is asked for
        self.max_positions: int = getattr(self._model.config, "max_position_embeddings", None) or 1 << 20

    def draw(self, wanted: Sequence[Wanted]) -> list[Drawn]:
        """Return an answer to each request; which others are in the batch changes it by rounding alone."""
        width = max(len(one.prompt) for one in wanted)
        tokens = [[self._pad] * (width - len(one.prompt)) + list(one.prompt) for one in wanted]
        mask = [[0] * (width - len(one.prompt)) + [1] * len(one.prompt) for one in wanted]
        choose = _Choose(wanted, self.ends)
        end = min(self.ends, default=0)
        with torch.inference_mode():
            self._model.generate(
                torch.tensor(tokens, device=self._device),
                attention_mask=torch.tensor(mask, device=self._device),
                generation_config=GenerationConfig(
                    do_sample=False,  # the processor has chosen: the largest score is its token
                    max_new_tokens=max(one.max_tokens for one in wanted),
                    eos_token_id=sorted(self.ends) or [end],
                    pad_token_id=self._pad,
                ),
                logits_processor=LogitsProcessorList([choose]),
            )
        return choose.drawn


class _Choose(LogitsProcessor):  # type: ignore[misc]
    """Chooses every row's next token by the row's own generator, and leaves that one alone to be taken."""

    def __init__(self, wanted: Sequence[Wanted], ends: frozenset[int]) -> None:
        self.drawn = [Drawn() for _ in wanted]
        self._wanted, self._ends = wanted, ends
        self._generators = [torch.Generator().manual_seed(one.seed) for one in wanted]
        self._stop = min(ends, default=0)

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        forced = torch.full_like(scores, float("-inf"))
        rows = scores.float().cpu()
        for at, (one, drawn) in enumerate(zip(self._wanted, self.drawn, strict=True)):
            if drawn.finished or len(drawn.tokens) == one.max_tokens:
                forced[at, self._stop] = 0.0  # the row is whole; transformers pads it from here on
                continue
            token, logprob = _choose(rows[at], one, self._generators[at])
            drawn.tokens.append(token)
            drawn.logprobs.append(logprob)
            drawn.finished = token in self._ends
            forced[at, token] = 0.0
        return forced


def _choose(logits: Tensor, one: Wanted, generator: torch.Generator) -> tuple[int, float]:
    """Return a token of logits [V] and its log-probability; at temperature 0 the most probable one."""
    if one.temperature == 0:
        token = int(logits.argmax())
        return token, float(logits.log_softmax(-1)[token])
    logprobs = (logits / one.temperature).log_softmax(-1)
    if one.top_p < 1:
        ordered, places = logprobs.exp().sort(descending=True)
        beyond = ordered.cumsum(-1) - ordered >= one.top_p  # the first one that reaches it stays
        logprobs = logprobs.index_fill(0, places[beyond], float("-inf")).log_softmax(-1)
    token = int(torch.multinomial(logprobs.exp(), 1, generator=generator))
    return token, float(logprobs[token])
