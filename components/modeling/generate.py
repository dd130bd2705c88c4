"""Generation: many samples of many prompts, each prompt encoded once, finished rows dropped as they end.

Shapes: S samples (rows), R rows still running, T response tokens, V vocabulary.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from components.contract.errors import InputError
from components.modeling.policy import Policy
from components.modeling.sampling import LogitsProcessor, Step, draw, truncate
from components.modeling.sampling_config import SamplingConfig

Progress = Callable[[int, int], None]


class Session(ABC):
    """Rows in the middle of generation: a backend's caches behind three calls."""

    @abstractmethod
    def start(self) -> Tensor:
        """Encode the prompts; return logits [R, V] of every row's first response token."""

    @abstractmethod
    def step(self, tokens: Tensor) -> Tensor:
        """Append tokens [R]; return logits [R, V] of the next ones."""

    @abstractmethod
    def keep(self, rows: Tensor) -> None:
        """Keep only the given rows, indices [R'] in rising order."""


@dataclass(frozen=True)
class Samples:
    """Responses with what the sampler knew about them; sample s of prompt p is row p * num_samples + s."""

    tokens: Tensor
    """[S, T] response tokens, padded with the policy's pad id."""
    lengths: Tensor
    """[S] response tokens, end mark counted."""
    logprobs: Tensor
    """[S, T] log-probability of each token under the distribution it was drawn from; 0 at padding."""
    entropies: Tensor
    """[S, T] entropy in nats of the policy's own distribution (temperature 1); 0 at padding."""
    prompt_index: Tensor
    """[S] prompt of each row."""
    finished: Tensor
    """[S] whether an end mark was emitted."""
    sampled: Tensor
    """[S, T] False at padding and at tokens that a prefix forced."""
    num_samples: int
    """Rows per prompt."""
    policy_logprobs: Tensor | None = None
    """[S, T] what the policy itself says, at the sampling temperature, where an engine drew; else `logprobs` do."""

    def responses(self) -> list[list[int]]:
        """Return the token ids of each row."""
        return [row[:n] for row, n in zip(self.tokens.tolist(), self.lengths.tolist(), strict=True)]

    def grouped(self) -> list[list[list[int]]]:
        """Return the token ids of each row, by prompt (what Packed.from_groups takes)."""
        rows = self.responses()
        return [rows[at : at + self.num_samples] for at in range(0, len(rows), self.num_samples)]

    def flat(self, values: Tensor) -> Tensor:
        """Return values [S, T] without padding, row after row (in the order of Packed's targets)."""
        return values[torch.arange(values.shape[1]) < self.lengths.unsqueeze(1)]


def generate(
    policy: Policy,
    prompts: Sequence[Sequence[int]],
    config: SamplingConfig,
    *,
    generator: torch.Generator,
    progress: Progress | None = None,
    prefixes: Sequence[Sequence[int]] | None = None,
    processor: LogitsProcessor | None = None,
) -> Samples:
    """Sample `num_samples` responses for every prompt.

    One uniform per row and position is drawn up front from `generator` (a CPU generator), so what a row emits
    does not depend on chunks, on compaction or on the other rows.

    Args:
        progress: called with (rows done, all rows).
        prefixes: one per row; their tokens open the response and are not sampled.
        processor: changes logits before temperature and truncation.
    """
    check_request(policy, prompts, config, prefixes)
    record = _Record(policy, len(prompts), config, generator, prefixes)
    done = 0
    with torch.inference_mode():
        for chunk in _chunks(prompts, config):
            session = policy.session([prompts[p] for p, _ in chunk], [n for _, n in chunk], config.max_new_tokens)
            rows = torch.arange(done, done + sum(n for _, n in chunk), device=policy.device)
            _run(session, rows, record, config, processor)
            done += rows.shape[0]
            if progress is not None:
                progress(done, record.num_rows)
    return record.samples()


def check_request(
    policy: Policy,
    prompts: Sequence[Sequence[int]],
    config: SamplingConfig,
    prefixes: Sequence[Sequence[int]] | None,
) -> None:
    """Raise InputError for empty prompts, lengths that do not fit the model, or prefixes that are not one per row."""
    if not prompts or not all(prompts):
        raise InputError("generation needs prompts of at least one token each")
    longest = max(map(len, prompts))
    if longest + config.max_new_tokens > policy.max_positions:
        raise InputError(
            f"a prompt of {longest} tokens and max_new_tokens {config.max_new_tokens} "
            f"do not fit the model's {policy.max_positions} positions"
        )
    if prefixes is not None and len(prefixes) != len(prompts) * config.num_samples:
        raise InputError(f"{len(prefixes)} prefixes for {len(prompts) * config.num_samples} rows; give one per row")


def _chunks(prompts: Sequence[Sequence[int]], config: SamplingConfig) -> Iterator[list[tuple[int, int]]]:
    """Yield lists of (prompt, rows) whose cached tokens fit `max_batch_tokens`, rows in order."""
    chunk: list[tuple[int, int]] = []
    free = config.max_batch_tokens
    for index, prompt in enumerate(prompts):
        wanted = config.num_samples
        while wanted:
            rows = min(wanted, (free - len(prompt)) // config.max_new_tokens)
            if rows < 1 and chunk:
                yield chunk
                chunk, free = [], config.max_batch_tokens
                continue
            rows = max(rows, 1)
            chunk.append((index, rows))
            wanted -= rows
            free -= len(prompt) + rows * config.max_new_tokens
    if chunk:
        yield chunk


class _Record:
    """What has been emitted, position by position ([T, S], so that one step writes one line)."""

    def __init__(
        self,
        policy: Policy,
        num_prompts: int,
        config: SamplingConfig,
        generator: torch.Generator,
        prefixes: Sequence[Sequence[int]] | None,
    ) -> None:
        device = policy.device
        self.num_samples = config.num_samples
        self.num_rows = rows = num_prompts * config.num_samples
        self.pad_id = policy.pad_id
        shape = (config.max_new_tokens, rows)
        self.uniforms: Tensor | None = None
        if not config.greedy:
            drawn = torch.rand(rows, config.max_new_tokens, dtype=torch.float64, generator=generator)
            self.uniforms = drawn.t().contiguous().to(device)
        self.forced = _forced(prefixes, shape, device)
        self.tokens = torch.full(shape, policy.pad_id, device=device)
        self.logprobs = torch.zeros(shape, device=device)
        self.entropies = torch.zeros(shape, device=device)
        self.ends = torch.tensor(sorted({*policy.eos_ids, *config.stop_token_ids}), device=device)

    def is_end(self, tokens: Tensor) -> Tensor:
        """Return which tokens end a response."""
        if self.ends.numel() == 1:
            return tokens == self.ends
        return torch.isin(tokens, self.ends)

    def samples(self) -> Samples:
        """Return the finished record: rows cut after their first end mark, on the CPU."""
        tokens = self.tokens.t().cpu()
        ended = self.is_end(self.tokens).t().cpu()
        width = tokens.shape[1]
        finished = ended.any(1)
        lengths = torch.where(finished, ended.int().argmax(1) + 1, width)
        padding = torch.arange(width) >= lengths.unsqueeze(1)
        sampled = ~padding
        if self.forced is not None:
            sampled &= (self.forced < 0).t().cpu()
        return Samples(
            tokens=tokens.masked_fill(padding, self.pad_id),
            lengths=lengths,
            logprobs=self.logprobs.t().cpu().masked_fill(padding, 0.0),
            entropies=self.entropies.t().cpu().masked_fill(padding, 0.0),
            prompt_index=torch.arange(self.num_rows) // self.num_samples,
            finished=finished,
            sampled=sampled,
            num_samples=self.num_samples,
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


def _run(
    session: Session,
    rows: Tensor,
    record: _Record,
    config: SamplingConfig,
    processor: LogitsProcessor | None,
) -> None:
    """Generate one chunk to its end; finished rows leave the session once an eighth of it is idle."""
    logits = session.start()
    done = torch.zeros_like(rows, dtype=torch.bool)
    for position in range(config.max_new_tokens):
        tokens = _emit(logits, rows, position, record, config, processor)
        if position == config.max_new_tokens - 1:
            return
        done |= record.is_end(tokens)
        idle = int(done.sum())
        if idle == rows.shape[0]:
            return
        if 8 * idle >= rows.shape[0]:
            kept = (~done).nonzero().squeeze(1)
            session.keep(kept)
            rows, tokens, done = rows[kept], tokens[kept], done[kept]
        logits = session.step(tokens)


def _emit(
    logits: Tensor,
    rows: Tensor,
    position: int,
    record: _Record,
    config: SamplingConfig,
    processor: LogitsProcessor | None,
) -> Tensor:
    """Choose and record the tokens [R] at one position."""
    own = torch.log_softmax(logits.float(), -1)
    own_probabilities = own.exp()
    logprobs, probabilities = own, own_probabilities
    if processor is not None:
        logits = processor(logits.float(), Step(position, rows, rows // record.num_samples))
    if processor is not None or not (config.plain or config.greedy):
        logprobs = torch.log_softmax(truncate(logits.float(), config), -1)
        probabilities = logprobs.exp()
    if record.uniforms is None:
        tokens = logprobs.argmax(-1)
    else:
        tokens = draw(probabilities, record.uniforms[position].index_select(0, rows))
    if record.forced is not None:
        forced = record.forced[position].index_select(0, rows)
        tokens = torch.where(forced >= 0, forced, tokens)
    record.tokens[position].index_copy_(0, rows, tokens)
    chosen = logprobs.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
    record.logprobs[position].index_copy_(0, rows, chosen)
    record.entropies[position].index_copy_(0, rows, -torch.linalg.vecdot(own_probabilities, own))
    return tokens
