"""Responses split into steps, and the value of each prefix: the share of its completions that are right."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from pydantic import Field

from components.contract.params import Params
from components.contract.regular import RegularExpression

if TYPE_CHECKING:
    from components.rl.batch.batch import Batch, Prompt
    from components.rl.step.collector import Collector


class StepsConfig(Params):
    """What ends a step, and how many completions estimate the value of a prefix."""

    separator: RegularExpression = r"\n"
    """Regular expression; a step ends after each token whose text contains a match."""
    num_completions: int = Field(default=8, ge=1)
    """Completions drawn from each prefix."""


@dataclass(frozen=True)
class ValuedSteps:
    """A response with its step values."""

    row: int
    """Its row in the batch."""
    ends: tuple[int, ...]
    """Number of response tokens up to the end of each step."""
    values: tuple[float, ...]
    """Q before the first step and after every step, so one more than `ends`; NaN where nothing could be verified."""
    groups: tuple[int, ...]
    """Group, in the batch of completions, of each prefix that ends a step; the last step has none."""

    @property
    def advantages(self) -> list[float]:
        """Return Q_i - Q_(i-1) of every step."""
        return [after - before for before, after in pairwise(self.values)]


def step_ends(pieces: Sequence[str], separator: str) -> tuple[int, ...]:
    """Return the token count at the end of each step, given the text of every token; the last is the full length."""
    pattern = re.compile(separator)
    ends = [index + 1 for index, piece in enumerate(pieces) if pattern.search(piece)]
    return tuple(ends) if ends and ends[-1] == len(pieces) else (*ends, len(pieces))


def token_texts(collector: Collector, tokens: Sequence[int]) -> list[str]:
    """Return the text of each token on its own; the end token has none."""
    tokenizer, ends = collector.policy.tokenizer, collector.policy.eos_ids
    assert tokenizer is not None
    return ["" if token in ends else str(tokenizer.decode([token])) for token in tokens]


def complete(
    prompts: Sequence[Prompt], prefixes: Sequence[Sequence[int]], collector: Collector, count: int
) -> tuple[Batch, list[float]]:
    """Draw `count` completions from each prefix; return them with outcomes, and the share of right ones per prefix.

    They count as samples but enter neither the record nor the ledger: they do not measure the prompt alone.
    """
    from components.rl.batch.batch import FAILED, RIGHT

    drawn = collector.draw(prompts, count, prefixes=[prefix for prefix in prefixes for _ in range(count)])
    outcomes = collector.outcomes(drawn)
    collector.num_probes += drawn.num_responses
    right, verified = (outcomes == RIGHT).float(), (outcomes != FAILED).float()
    shares = right.reshape(-1, count).sum(1) / verified.reshape(-1, count).sum(1)
    return replace(drawn, outcomes=outcomes, rewards=right), shares.tolist()


def value_steps(
    batch: Batch, rows: Sequence[int], collector: Collector, config: StepsConfig
) -> tuple[list[ValuedSteps], Batch | None]:
    """Return the step values of the chosen rows of a scored batch, and all completions (None without any prefix).

    The value before the first step is the pass rate of the response's group; after the last, the response's outcome.
    """
    from components.rl.batch.batch import RIGHT

    batch.require_single("cutting responses into steps")
    texts = batch.tokens.split(batch.lengths.tolist())
    right_s = (batch.outcomes == RIGHT).double()
    start_s = batch.group_mean(right_s).tolist()
    prompts: list[Prompt] = []
    prefixes: list[list[int]] = []
    cuts: list[tuple[int, ...]] = []
    for row in rows:
        tokens = texts[row].tolist()
        cuts.append(step_ends(token_texts(collector, tokens), config.separator))
        prompts += [batch.prompts[int(batch.group[row])]] * (len(cuts[-1]) - 1)
        prefixes += [tokens[:end] for end in cuts[-1][:-1]]
    drawn, shares = complete(prompts, prefixes, collector, config.num_completions) if prefixes else (None, [])
    valued, first = [], 0
    for row, ends in zip(rows, cuts, strict=True):
        groups = tuple(range(first, first + len(ends) - 1))
        values = (start_s[row], *(shares[group] for group in groups), float(right_s[row]))
        valued.append(ValuedSteps(row, ends, values, groups))
        first += len(groups)
    return valued, drawn


def critical_step(values: Sequence[float], low: float) -> int | None:
    """Return the index of the step with the largest drop among steps ending at a value of at most `low`, or None.

    `values` as in ValuedSteps. The value must fall; the earliest of equal drops wins.
    """
    found, worst = None, 0.0
    for step, (before, after) in enumerate(pairwise(values)):
        if after <= low and after - before < worst:
            found, worst = step, after - before
    return found
