"""Generation: many samples of many prompts, each prompt encoded once, finished rows dropped as they end.

Shapes: R rows still running, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypedDict, Unpack

import torch
from torch import Tensor

from components.contract.errors import InputError
from components.modeling.generation.emission import Emitter
from components.modeling.generation.samples import Samples
from components.modeling.generation.sampling import LogitsProcessor
from components.modeling.generation.sampling_config import SamplingConfig
from components.modeling.models.policy import Policy
from components.modeling.models.session import Session

Progress = Callable[[int, int], None]


class DrawOptions(TypedDict, total=False):
    """The options of `generate`, which every sampler takes."""

    progress: Progress | None
    """Called with (rows done, all rows)."""
    prefixes: Sequence[Sequence[int]] | None
    """One per row; their tokens open the response and are not sampled."""
    processor: LogitsProcessor | None
    """Changes logits before temperature and truncation."""


def generate(
    policy: Policy,
    prompts: Sequence[Sequence[int]],
    config: SamplingConfig,
    *,
    generator: torch.Generator,
    **options: Unpack[DrawOptions],
) -> Samples:
    """Sample `num_samples` responses for every prompt.

    One uniform per row and position is drawn up front from `generator` (a CPU generator), so what a row emits
    does not depend on chunks, on compaction or on the other rows.
    """
    progress, prefixes = options.get("progress"), options.get("prefixes")
    check_request(policy, prompts, config, prefixes)
    emitter = Emitter(policy, len(prompts), config, generator, prefixes, options.get("processor"))
    done = 0
    # Weights that layers gather inside serve training, too: they must be no inference tensors.
    with torch.no_grad() if policy.is_sharded else torch.inference_mode():
        for chunk in _chunks(prompts, config):
            session = policy.session([prompts[p] for p, _ in chunk], [n for _, n in chunk], config.max_new_tokens)
            rows = torch.arange(done, done + sum(n for _, n in chunk), device=policy.device)
            _run(session, rows, emitter)
            done += rows.shape[0]
            if progress is not None:
                progress(done, emitter.num_rows)
    return emitter.samples()


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


def _run(session: Session, rows: Tensor, emitter: Emitter) -> None:
    """Generate one chunk to its end; finished rows leave the session once they are an eighth of it."""
    emitter.open(rows)
    tokens = emitter.emit(session.start())
    done = torch.zeros_like(tokens, dtype=torch.bool)
    for _ in range(emitter.max_new_tokens - 1):
        if emitter.can_end:
            done |= emitter.is_end(tokens)
            idle = int(done.sum())
            if idle == done.shape[0]:
                break
            if 8 * idle >= done.shape[0]:
                kept = (~done).nonzero().squeeze(1)
                session.keep(kept)
                emitter.keep(kept)
                tokens, done = tokens[kept], done[kept]
        tokens = emitter.emit(session.step(tokens))
    emitter.close()
