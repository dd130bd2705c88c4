"""Whole conversations from a sampler: turn by turn, each drawn for all conversations together.

Shapes: S conversations (rows); row r belongs to script r // num_samples.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch

from components.contract.errors import InputError
from components.modeling.generation.generate import Progress
from components.modeling.generation.sampler import Sampler
from components.modeling.generation.samples import Samples
from components.modeling.generation.sampling_config import SamplingConfig
from components.modeling.text.turns import Script


@dataclass(frozen=True)
class Turn:
    """One turn of all conversations that have it."""

    contexts: list[list[int]]
    """The context of each prompt of `samples`: the openings for the first turn; later one context per row, with the
    turns before it verbatim."""
    samples: Samples
    """The draw: `num_samples` for each opening, later one for each context."""
    rows: list[int]
    """The conversation that each row of `samples` continues, ascending."""


def converse(
    sampler: Sampler,
    scripts: Sequence[Script],
    config: SamplingConfig,
    *,
    generator: torch.Generator,
    progress: Progress | None = None,
    max_tokens: int | None = None,
) -> list[Turn]:
    """Draw `num_samples` conversations for every script, turn by turn; scripts of one turn are plain prompts.

    The policy's tokens stay as drawn; a turn that reaches `max_new_tokens` gets the end token that it lacks.
    `max_new_tokens` bounds each turn, and `max_tokens` all turns of a conversation together: after the turn that
    reaches it nothing more is drawn, and the caller cuts off that turn's excess. Equal scripts, weights and generator
    state give equal conversations. `progress` is called with (rows done, all rows) of the current turn. Raises
    InputError when a conversation might not fit the model.
    """
    steps = conversing(scripts, config, sampler.policy.max_positions, max_tokens)
    asked = next(steps)
    while True:
        samples = sampler.sample(asked.contexts, asked.config, generator=generator, progress=progress)
        try:
            asked = steps.send(samples)
        except StopIteration as end:
            turns: list[Turn] = end.value
            return turns


class Asked(NamedTuple):
    """What a turn needs drawn."""

    contexts: list[list[int]]
    config: SamplingConfig


def conversing(
    scripts: Sequence[Script], config: SamplingConfig, max_positions: int, max_tokens: int | None = None
) -> Generator[Asked, Samples, list[Turn]]:
    """Yield what each turn needs drawn, take its samples, and return all turns; arguments and errors as in `converse`.

    Whoever draws may begin a turn and come back for it later.
    """
    check_fit(scripts, config, max_positions)
    contexts = [script.opening for script in scripts]
    samples = yield Asked(contexts, config)
    rows = list(range(len(scripts) * config.num_samples))
    turns = [Turn(contexts, samples, rows)]
    written = torch.zeros(len(rows), dtype=torch.long)
    of_row = [scripts[row // config.num_samples] for row in rows]
    single = config.model_copy(update={"num_samples": 1})
    while True:
        last = turns[-1]
        written[last.rows] += last.samples.lengths
        going = (written < max_tokens).tolist() if max_tokens is not None else [True] * len(of_row)
        open_rows = [at for at, row in enumerate(last.rows) if going[row] and of_row[row].num_turns > len(turns)]
        if not open_rows:
            return turns
        responses, per_context = last.samples.responses(), last.samples.num_samples
        rows = [last.rows[at] for at in open_rows]
        contexts = [
            [
                *last.contexts[at // per_context],
                *responses[at],
                *of_row[row].following(len(turns) - 1, responses[at]),
            ]
            for at, row in zip(open_rows, rows, strict=True)
        ]
        samples = yield Asked(contexts, single)
        turns.append(Turn(contexts, samples, rows))


def check_fit(scripts: Sequence[Script], config: SamplingConfig, max_positions: int) -> None:
    """Raise InputError when a conversation whose turns are all cut at the limit exceeds the model's positions."""
    longest = max((script.num_tokens(config.max_new_tokens) for script in scripts if script.gaps), default=0)
    if longest > max_positions:
        raise InputError(
            f"a conversation may have {longest} tokens (its turns up to max_new_tokens {config.max_new_tokens} each), "
            f"and the model has {max_positions} positions"
        )


def whole_rows(turns: Sequence[Turn]) -> tuple[list[int], list[float], list[float], list[bool]]:
    """Return each conversation's number of tokens, mean entropy, log-probability, and whether all its turns ended."""
    samples = turns[0].samples
    lengths, finished = samples.lengths.clone(), samples.finished.clone()
    entropies, logprobs = samples.entropies.double().sum(1), samples.logprobs.double().sum(1)
    for turn in turns[1:]:
        rows, samples = torch.tensor(turn.rows), turn.samples
        lengths[rows] += samples.lengths
        entropies[rows] += samples.entropies.double().sum(1)
        logprobs[rows] += samples.logprobs.double().sum(1)
        finished[rows] &= samples.finished
    return lengths.tolist(), (entropies / lengths).tolist(), logprobs.tolist(), finished.tolist()
