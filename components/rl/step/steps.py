"""Responses cut into steps, and what each prefix is worth: the share of its completions that end right."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from pydantic import Field

from components.contract.component import Params
from components.contract.regular import RegularExpression

if TYPE_CHECKING:
    from components.rl.batch.batch import Batch, Prompt
    from components.rl.step.collector import Collector


class StepsConfig(Params):
    """What ends a step, and how many completions measure a prefix."""

    separator: RegularExpression = r"\n"
    """Regular expression; a step ends behind each token whose text it is found in."""
    num_completions: int = Field(default=8, ge=1)
    """Completions drawn from each prefix."""


@dataclass(frozen=True)
class ValuedSteps:
    """A response with what it is worth after each of its steps."""

    row: int
    """Its row in the batch."""
    ends: tuple[int, ...]
    """Tokens of the response up to the end of each step."""
    values: tuple[float, ...]
    """One more than `ends`: Q before the first step, ..., after the last. NaN where nothing could be verified."""
    groups: tuple[int, ...]
    """Group of the completions from the prefixes behind all steps but the last, in `Completions.batch`."""

    @property
    def advantages(self) -> list[float]:
        """Return Q_i - Q_(i-1) of every step."""
        return [after - before for before, after in pairwise(self.values)]


def step_ends(pieces: Sequence[str], separator: str) -> tuple[int, ...]:
    """Return after how many tokens each step ends, given the text of every token; the last one is all of them."""
    pattern = re.compile(separator)
    ends = [index + 1 for index, piece in enumerate(pieces) if pattern.search(piece)]
    return tuple(ends) if ends and ends[-1] == len(pieces) else (*ends, len(pieces))


def token_texts(collector: Collector, tokens: Sequence[int]) -> list[str]:
    """Return the text of each token by itself; the end mark has none."""
    tokenizer, ends = collector.policy.tokenizer, collector.policy.eos_ids
    assert tokenizer is not None
    return ["" if token in ends else str(tokenizer.decode([token])) for token in tokens]


def complete(
    prompts: Sequence[Prompt], prefixes: Sequence[Sequence[int]], collector: Collector, count: int
) -> tuple[Batch, list[float]]:
    """Draw `count` completions from each prefix; return them with their outcomes, and the share of right ones.

    They are counted as samples, but neither recorded nor in the ledger: they say nothing about the prompt alone.
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
    """Measure the chosen responses of a scored batch step by step; return them with all completions (None: no prefix).

    Before the first step the value is the pass rate of the response's group, after the last its own outcome.
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
    """Return the step, from 0, that loses most among those that end at a value of at most `low`; None without one.

    `values` as in ValuedSteps. A step must lose something, and the earliest of equal ones is taken.
    """
    found, worst = None, 0.0
    for step, (before, after) in enumerate(pairwise(values)):
        if after <= low and after - before < worst:
            found, worst = step, after - before
    return found
