"""Pairs that diverge at the step where a wrong response went wrong: preference data per step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from components.rl.configs import SlotConfig
from components.rl.step.context import SlotContext
from components.rl.step.steps import StepsConfig, complete, critical_step, step_ends, token_texts, value_steps
from components.tasks.seeds import derive_rng

if TYPE_CHECKING:
    from components.rl.batch.batch import Batch
    from components.rl.step.collector import Collector


class CriticalPairsConfig(StepsConfig, SlotConfig):
    """Which responses are rejected, where the pair diverges, and which response is chosen."""

    writes: ClassVar[frozenset[str]] = frozenset({"suffix_n"})
    clears: ClassVar[bool] = True
    low: float = Field(default=0.2, ge=0, lt=1)
    """A critical step ends at a value of at most this."""
    per_prompt: int = Field(default=4, ge=1)
    """Maximum number of wrong responses per prompt that pairs are made from."""
    chosen: Literal["best_step", "first"] = "best_step"
    """Which right completion is chosen: the one whose first step has the highest value, or the first one drawn."""
    part: Literal["critical", "start"] = "critical"
    """start: no search for a step; a wrong response and a random right one of the same prompt, for comparison."""


@dataclass(frozen=True)
class Pair:
    """Rows of the rejected and the chosen response, and the length of their shared prefix in tokens."""

    rejected: int
    chosen: int
    shared: int


def critical_pairs(batch: Batch, collector: Collector, context: SlotContext, *, config: CriticalPairsConfig) -> Batch:
    """Return a batch of pairs, each a group of two: a right continuation of a prefix, then the wrong one.

    The prefix ends before the critical step of a wrong response (see steps.py); `suffix_n` marks the tokens after it.
    Responses without a critical step, or without a right completion of the prefix, make no pair; the batch may be
    empty. Source: Setlur et al. 2024, RL on Incorrect Synthetic Data (arXiv:2406.14532), section 4; the rule for the
    critical step and the number of completions are reconstructed.
    """
    batch.require_single("guidance critical_pairs")
    rejected = _wrong_rows(batch, config.per_prompt)
    if config.part == "start":
        return _assemble(batch, _random_pairs(batch, rejected, context))
    valued, drawn = value_steps(batch, rejected, collector, config)
    pool = batch if drawn is None else _rows_apart(batch, drawn)
    pairs = []
    for measured in valued:
        step = critical_step(measured.values, config.low)
        if step is None:
            continue
        shared = measured.ends[step - 1] if step else 0
        if step:
            rows = [batch.num_responses + row for row in _right_rows(drawn, measured.groups[step - 1])]
        else:
            rows = _right_rows(batch, int(batch.group[measured.row]))
        pairs += [Pair(measured.row, row, shared) for row in rows]
    best = _first_of_each(pairs) if config.chosen == "first" else _best_of_each(pool, pairs, collector, config)
    return _assemble(pool, best)


def _wrong_rows(batch: Batch, most: int) -> list[int]:
    from components.rl.batch.batch import WRONG

    taken: dict[int, list[int]] = {}
    for row in (batch.outcomes == WRONG).nonzero().squeeze(1).tolist():
        taken.setdefault(int(batch.group[row]), []).append(row)
    return [row for rows in taken.values() for row in rows[:most]]


def _right_rows(batch: Batch | None, group: int) -> list[int]:
    from components.rl.batch.batch import RIGHT

    assert batch is not None
    return ((batch.outcomes == RIGHT) & (batch.group == group)).nonzero().squeeze(1).tolist()


def _random_pairs(batch: Batch, rejected: Sequence[int], context: SlotContext) -> list[Pair]:
    pairs = []
    for row in rejected:
        group = int(batch.group[row])
        if right := _right_rows(batch, group):
            rng = derive_rng(context.seed, "critical_pairs", context.step, row, batch.prompts[group].item.id)
            pairs.append(Pair(row, rng.choice(right), 0))
    return pairs


def _first_of_each(pairs: Sequence[Pair]) -> list[Pair]:
    return list({pair.rejected: pair for pair in reversed(pairs)}.values())[::-1]


def _best_of_each(pool: Batch, pairs: Sequence[Pair], collector: Collector, config: StepsConfig) -> list[Pair]:
    """Keep, for each rejected response, the chosen one whose first step after the prefix has the highest value."""
    rows = pool.tokens.split(pool.lengths.tolist())
    prefixes: dict[tuple[int, tuple[int, ...]], float] = {}
    first_steps = []
    for pair in pairs:
        tokens = rows[pair.chosen].tolist()
        ends = step_ends(token_texts(collector, tokens), config.separator)
        end = next(end for end in ends if end > pair.shared)
        first_steps.append((int(pool.group[pair.chosen]), tuple(tokens[:end])))
        prefixes[first_steps[-1]] = 1.0 if end == len(tokens) else 0.0
    unknown = [key for key, value in prefixes.items() if value == 0.0]
    if unknown:
        prompts = [pool.prompts[group] for group, _ in unknown]
        _, shares = complete(prompts, [list(prefix) for _, prefix in unknown], collector, config.num_completions)
        prefixes.update(zip(unknown, shares, strict=True))
    best: dict[int, tuple[float, Pair]] = {}
    for pair, key in zip(pairs, first_steps, strict=True):
        if pair.rejected not in best or prefixes[key] > best[pair.rejected][0]:
            best[pair.rejected] = (prefixes[key], pair)
    return [pair for _, pair in best.values()]


def _rows_apart(batch: Batch, drawn: Batch) -> Batch:
    """Return both with one row numbering, without their marks."""
    from components.rl.batch.joining import concatenate

    return concatenate([replace(batch, extras={}), replace(drawn, extras={})])


def _assemble(pool: Batch, pairs: Sequence[Pair]) -> Batch:
    """Return the pairs as groups of two, the chosen response first."""
    import torch

    if not pairs:
        return pool.select(torch.zeros(pool.num_responses, dtype=torch.bool))
    single = replace(
        pool,
        prompts=tuple(pool.prompts[group] for group in pool.group.tolist()),
        group=torch.arange(pool.num_responses),
        extras={},
    )
    rows = torch.tensor([row for pair in pairs for row in (pair.chosen, pair.rejected)])
    chosen = single.select(rows)
    paired = replace(chosen, prompts=chosen.prompts[::2], group=torch.arange(len(rows)) // 2)
    shared_s = torch.tensor([pair.shared for pair in pairs]).repeat_interleave(2)
    return paired.with_extras(suffix_n=paired.positions >= paired.to_tokens(shared_s))
