"""Conversations as a batch: one row each, holding the policy's turns as drawn and the tokens between them.

Shapes as in components/rl/batch/batch.py; a row is a conversation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch

from components.modeling.generation.conversation import Turn
from components.modeling.text.turns import Script
from components.rl.batch.batch import ENVIRONMENT, POLICY, TEMPLATE, Batch, Prompt, new_batch

Decode = Callable[[Sequence[Prompt], Sequence[Sequence[int]]], list[str]]
"""(prompt of each row, tokens of each row) -> their texts."""


def script_of(prompt: Prompt, end: int) -> Script:
    """Return the tokens before and between the turns of a prompt's conversation; token `end` ends a turn."""
    return Script(list(prompt.tokens), tuple(map(list, prompt.gaps)), end)


@dataclass
class _Row:
    """A conversation while its turns are being concatenated."""

    tokens: list[int] = field(default_factory=list)
    author: list[int] = field(default_factory=list)
    turn: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    own_logprobs: list[float] = field(default_factory=list)
    entropies: list[float] = field(default_factory=list)
    turns: list[list[int]] = field(default_factory=list)
    """Tokens of the policy's turns."""
    finished: bool = True
    """Whether all turns so far ended by themselves."""

    def lay(self, tokens: Sequence[int], author: int, turn: int, *values: Sequence[float]) -> None:
        """Append tokens with log-probabilities under the sampler and under the policy, and entropies (default 0)."""
        self.tokens += tokens
        self.author += [author] * len(tokens)
        self.turn += [turn] * len(tokens)
        for column, found in zip((self.logprobs, self.own_logprobs, self.entropies), values, strict=False):
            column += found
        if not values:
            for column in (self.logprobs, self.own_logprobs, self.entropies):
                column += [0.0] * len(tokens)


def batch_of_turns(
    prompts: Sequence[Prompt], turns: Sequence[Turn], decode: Decode, *, end: int, max_tokens: int | None = None
) -> Batch:
    """Return one row per conversation, not yet scored; only the policy's own tokens are learned.

    `max_tokens` bounds the policy's tokens over all turns; the excess is cut. A conversation that ended before its
    last turn has an empty text there and is not finished.
    """
    size = turns[0].samples.num_samples
    of_row = [prompt for prompt in prompts for _ in range(size)]
    rows = [_Row() for _ in of_row]
    for number, drawn in enumerate(turns):
        _lay_turn(rows, of_row, drawn, number, end=end, max_tokens=max_tokens)
    for row, prompt in zip(rows, of_row, strict=True):
        row.finished &= len(row.turns) == len(prompt.gaps) + 1
    batch = new_batch(
        prompts,
        [""] * len(rows),
        group=torch.arange(len(rows)) // size,
        lengths=torch.tensor([len(row.tokens) for row in rows]),
        finished=torch.tensor([row.finished for row in rows]),
        tokens=torch.tensor([token for row in rows for token in row.tokens]),
        old_logprobs=torch.tensor([value for row in rows for value in row.own_logprobs]),
        entropies=torch.tensor([value for row in rows for value in row.entropies]),
    )
    author = torch.tensor([author for row in rows for author in row.author])
    texts = _texts(rows, of_row, decode)
    return replace(
        batch,
        behaviour_logprobs=torch.tensor([value for row in rows for value in row.logprobs]),
        author=author,
        learned=author == POLICY,
        turn=torch.tensor([turn for row in rows for turn in row.turn]),
        texts=tuple(written[-1] for written in texts),
        earlier_turns=tuple(tuple(written[:-1]) for written in texts),
    )


def _lay_turn(
    rows: Sequence[_Row], of_row: Sequence[Prompt], drawn: Turn, number: int, *, end: int, max_tokens: int | None
) -> None:
    """Append a turn to the conversations that have it, after the tokens that follow the previous turn."""
    samples = drawn.samples
    own = samples.logprobs if samples.policy_logprobs is None else samples.policy_logprobs
    columns = (samples.responses(), samples.logprobs.tolist(), own.tolist(), samples.entropies.tolist())
    finished = samples.finished.tolist()
    for place, index in enumerate(drawn.rows):
        row, tokens = rows[index], columns[0][place]
        if number:
            between = script_of(of_row[index], end).following(number - 1, row.turns[-1])
            missing = len(between) - len(of_row[index].gaps[number - 1])
            row.lay(between[:missing], TEMPLATE, number - 1)
            row.lay(between[missing:], ENVIRONMENT, number)
        left = None if max_tokens is None else max_tokens - sum(map(len, row.turns))
        kept = tokens[:left]
        row.lay(kept, POLICY, number, *(column[place][: len(kept)] for column in columns[1:]))
        row.turns.append(kept)
        row.finished &= finished[place] and len(kept) == len(tokens)


def _texts(rows: Sequence[_Row], of_row: Sequence[Prompt], decode: Decode) -> list[list[str]]:
    """Return the texts of all turns of each conversation; turns after its end are empty."""
    flat = [(prompt, turn) for row, prompt in zip(rows, of_row, strict=True) for turn in row.turns]
    decoded = iter(decode([prompt for prompt, _ in flat], [turn for _, turn in flat]))
    found = []
    for row, prompt in zip(rows, of_row, strict=True):
        written = [next(decoded) for _ in row.turns]
        found.append(written + [""] * (len(prompt.gaps) + 1 - len(written)))
    return found
