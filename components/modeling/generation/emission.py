"""Choosing tokens from logits, and recording them.

Shapes: S samples (rows) of all prompts, R rows running in the open chunk, T response tokens, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from components.contract.errors import NotFiniteError
from components.modeling.generation.samples import Samples
from components.modeling.generation.sampling import LogitsProcessor, Step, draw, truncate
from components.modeling.generation.sampling_config import SamplingConfig
from components.modeling.models.policy import Policy


class Emitter:
    """The emitted tokens, position by position ([T, S]), one chunk of rows at a time.

    A chunk's columns are written only when its rows change or end, so that a step does no bookkeeping.
    """

    def __init__(
        self,
        policy: Policy,
        num_prompts: int,
        config: SamplingConfig,
        generator: torch.Generator,
        prefixes: Sequence[Sequence[int]] | None,
        processor: LogitsProcessor | None,
    ) -> None:
        self.config = config
        self.processor = processor
        self.device = policy.device
        self.num_rows = num_prompts * config.num_samples
        self.max_new_tokens = config.max_new_tokens
        self.pad_id = policy.pad_id
        shape = (config.max_new_tokens, self.num_rows)
        self._uniforms: Tensor | None = None
        if not config.greedy:
            drawn = torch.rand(self.num_rows, config.max_new_tokens, dtype=torch.float64, generator=generator)
            self._uniforms = drawn.t().contiguous().to(self.device)
        self._forced = _forced(prefixes, shape, self.device)
        self._tokens = torch.full(shape, policy.pad_id, device=self.device)
        self._logprobs = torch.zeros(shape, device=self.device)
        self._entropies = torch.zeros(shape, device=self.device)
        ends = sorted({*policy.eos_ids, *config.stop_token_ids})
        self._ends = torch.tensor(ends, dtype=torch.long, device=self.device)
        self.can_end = bool(ends)
        """Whether any token ends a response."""

    def open(self, rows: Tensor) -> None:
        """Begin a chunk of rows [R], indices in rising order."""
        self._rows = rows
        self._position = 0
        self._last: Tensor | None = None
        self._pending: list[tuple[Tensor, Tensor, Tensor]] = []
        self._select()

    def keep(self, kept: Tensor) -> None:
        """Keep only some rows of the chunk, indices [R'] in rising order."""
        self.close()
        self._rows = self._rows.index_select(0, kept)
        self._last = None if self._last is None else self._last.index_select(0, kept)
        self._select()

    def close(self) -> None:
        """Write the chunk's emitted tokens to the record."""
        if not self._pending:
            return
        written = slice(self._position - len(self._pending), self._position)
        for record, columns in zip(
            (self._tokens, self._logprobs, self._entropies), zip(*self._pending, strict=True), strict=True
        ):
            record[written].index_copy_(1, self._rows, torch.stack(columns))
        self._pending = []

    def emit(self, logits: Tensor) -> Tensor:
        """Return the tokens [R] chosen at the next position from logits [R, V]."""
        config, position = self.config, self._position
        own = torch.log_softmax(logits.float(), -1)
        own_probabilities = own.exp()
        logprobs, probabilities = own, own_probabilities
        if self.processor is not None:
            logits = self.processor(
                logits.float(), Step(position, self._rows, self._rows // config.num_samples, self._last)
            )
        if self.processor is not None or not (config.plain or config.greedy):
            logprobs = torch.log_softmax(truncate(logits.float(), config), -1)
            probabilities = logprobs.exp()
        if self._chunk_uniforms is None:
            tokens = logprobs.argmax(-1)
        else:
            # No probability is a number where a logit is none: the place found is then behind the last token.
            tokens = draw(probabilities, self._chunk_uniforms[position]).clamp_(max=logprobs.shape[-1] - 1)
        if self._chunk_forced is not None:
            forced = self._chunk_forced[position]
            tokens = torch.where(forced >= 0, forced, tokens)
        chosen = logprobs.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
        self._pending.append((tokens, chosen, -torch.linalg.vecdot(own_probabilities, own)))
        self._position += 1
        self._last = tokens
        return tokens

    def is_end(self, tokens: Tensor) -> Tensor:
        """Return which tokens end a response."""
        if self._ends.numel() == 1:
            return tokens == self._ends
        return torch.isin(tokens, self._ends)

    def samples(self) -> Samples:
        """Return the finished record: rows cut after their first end mark, on the CPU."""
        tokens = self._tokens.t().cpu()
        ended = self.is_end(self._tokens).t().cpu()
        width = tokens.shape[1]
        finished = ended.any(1)
        lengths = torch.where(finished, ended.int().argmax(1) + 1, width)
        padding = torch.arange(width) >= lengths.unsqueeze(1)
        sampled = ~padding
        if self._forced is not None:
            sampled &= (self._forced < 0).t().cpu()
        if bool(self._logprobs.t().cpu()[sampled].isnan().any()):  # once a draw: steps do not wait for the device
            raise NotFiniteError(
                "the model's logits are NaN or infinite, so no token can be drawn: its weights have grown too large or "
                "are broken; take an earlier checkpoint, or another dtype"
            )
        return Samples(
            tokens=tokens.masked_fill(padding, self.pad_id),
            lengths=lengths,
            logprobs=self._logprobs.t().cpu().masked_fill(padding, 0.0),
            entropies=self._entropies.t().cpu().masked_fill(padding, 0.0),
            prompt_index=torch.arange(self.num_rows) // self.config.num_samples,
            finished=finished,
            sampled=sampled,
            num_samples=self.config.num_samples,
        )

    def _select(self) -> None:
        """Select the chunk's columns [T, R] of the uniforms and forced tokens of all rows."""
        self._chunk_uniforms, self._chunk_forced = (
            None if given is None else given.index_select(1, self._rows) for given in (self._uniforms, self._forced)
        )


def _forced(prefixes: Sequence[Sequence[int]] | None, shape: tuple[int, int], device: torch.device) -> Tensor | None:
    """Return forced tokens [T, S], -1 where a token is free, or None without prefixes."""
    if prefixes is None:
        return None
    table = torch.full((shape[1], shape[0]), -1)
    for row, prefix in enumerate(prefixes):
        cut = list(prefix[: shape[0]])
        table[row, : len(cut)] = torch.tensor(cut, dtype=torch.long)
    return table.t().contiguous().to(device)
