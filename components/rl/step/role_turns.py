"""Turns of roles: a tree of texts, in which each text of a turn is asked about by the next turn.

Shapes as in components/rl/batch/batch.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress

import torch
from torch import Tensor

from components.contract.errors import InputError
from components.contract.operators import OperatorSpec
from components.modeling.serving.models import Drawing
from components.rl.batch.batch import FAILED, RIGHT, Batch, Prompt, new_batch
from components.rl.batch.joining import concatenate
from components.rl.role_config import PROMPT, RoleTurn
from components.rl.step.collector import Collector
from components.rl.step.context import SlotContext
from components.rl.step.role_questions import Asker
from components.tasks.seeds import derive_seed


@dataclass(frozen=True)
class Text:
    """What a role wrote, with the texts before it."""

    task: Prompt
    texts: dict[str, str]
    """Role -> text, of this turn and of those before it; "prompt" is the task."""
    worth: dict[str, float]
    """Role -> 1 right, 0 wrong, NaN where the verification failed."""
    parent: int
    """Place of the text of the turn before that it was asked about; of the first turn, the task's."""


@dataclass(frozen=True)
class Played:
    """One turn."""

    turn: RoleTurn
    texts: list[Text]
    """In the order of the rows of `batch`, if there is one."""
    batch: Batch | None
    """Of a turn that is learned from and was asked anything."""
    num_too_long: int = 0
    """Questions that were not asked, because an answer would not fit behind them."""


def play(
    prompts: Sequence[Prompt],
    collector: Collector,
    context: SlotContext,
    turns: Sequence[RoleTurn],
    verdict: OperatorSpec,
    draw: int = 0,
) -> list[Played]:
    """Return all turns; each asks about every text of the one before that has a question with room for an answer.

    `draw` counts the calls of a step, from 0.
    """
    if any(prompt.gaps for prompt in prompts):
        raise InputError("rl: rollout roles asks for one text a turn, and prompts are conversations of several turns")
    before = [Text(prompt, {PROMPT: prompt.item.prompt}, {}, at) for at, prompt in enumerate(prompts)]
    played: list[Played] = []
    for number, turn in enumerate(turns):
        asker = Asker(turn, collector, context, verdict)
        due = [
            (at, one, asker.question(one.task, one.texts, one.worth))
            for at, one in enumerate(before)
            if turn.judges is None or not math.isnan(one.worth[turn.judges])
        ]
        fitting = asker.fitting([prompt for *_, prompt in due])
        asked = list(compress(due, fitting))
        seed = derive_seed(context.seed, "roles", turn.role, number, context.step, *([draw] if draw else []))
        written, batch = _written(turn, [prompt for *_, prompt in asked], asker, collector, context, seed)
        texts = _texts(turn, asked, written, collector)
        played.append(Played(turn, texts, batch, len(due) - len(asked)))
        before = texts
    return played


def learned_rows(played: Sequence[Played]) -> tuple[Batch, Tensor, Tensor]:
    """Return the rows of the turns that are learned from, and what was right before and after each of them [S].

    There is no row where nothing could be asked.
    """
    parts = [
        (one.batch, _before(played, number), _after(played, number))
        for number, one in enumerate(played)
        if one.batch is not None
    ]
    if not parts:
        return _plain([], []), torch.zeros(0), torch.zeros(0)
    batches, before, after = zip(*parts, strict=True)
    return concatenate(batches), torch.cat(before), torch.cat(after)


def _written(
    turn: RoleTurn,
    prompts: Sequence[Prompt],
    asker: Asker,
    collector: Collector,
    context: SlotContext,
    seed: int,
) -> tuple[list[list[str | None]], Batch | None]:
    """Return the texts to each question, None for one that is refused; and the rows, if they are learned from."""
    count = turn.samples or (context.settings.group_size if turn.learns else 1)
    if not prompts:
        return [], None
    if turn.learns:
        batch = collector.draw(prompts, count)
        return _in_groups(batch.texts, count), batch
    temperature = context.settings.temperature if turn.temperature is None else turn.temperature
    names = [prompt.item.id for prompt in prompts]
    asked = dict(zip(names, prompts, strict=True)) if temperature == 0 else dict(enumerate(prompts))
    chosen = list(asked.values())  # a greedy text is the same each time
    if turn.by == "policy":
        probe = collector.draw(chosen, count, temperature=temperature, to_learn=False)
        collector.num_probes += probe.num_responses
        found = _in_groups(probe.texts, count)
    else:
        drawing = Drawing(
            num_samples=count,
            max_new_tokens=context.settings.max_new_tokens,
            temperature=temperature,
            seed=seed,
        )
        texts = asker.partner.write([prompt.item.task for prompt in chosen], drawing)
        found = [[None if one is None else one.text for one in row] for row in texts]
    by_key = dict(zip(asked, found, strict=True))
    return [by_key[key] for key in (names if temperature == 0 else range(len(prompts)))], None


def _texts(
    turn: RoleTurn,
    asked: Sequence[tuple[int, Text, Prompt]],
    written: Sequence[Sequence[str | None]],
    collector: Collector,
) -> list[Text]:
    rows = [
        (at, about, prompt, text)
        for (at, about, prompt), texts in zip(asked, written, strict=True)
        for text in texts
        if text is not None
    ]
    outcomes = collector.outcomes(_plain([row[2] for row in rows], [row[3] for row in rows])).tolist() if rows else []
    worth = [math.nan if outcome == FAILED else float(outcome == RIGHT) for outcome in outcomes]
    return [
        Text(about.task, {**about.texts, turn.role: text}, {**about.worth, turn.role: value}, at)
        for (at, about, _, text), value in zip(rows, worth, strict=True)
    ]


def _plain(prompts: Sequence[Prompt], texts: Sequence[str]) -> Batch:
    """Return a batch of texts alone, to be verified."""
    count = len(texts)
    return new_batch(
        prompts,
        texts,
        group=torch.arange(count),
        lengths=torch.ones(count, dtype=torch.long),
        finished=torch.ones(count, dtype=torch.bool),
        tokens=torch.zeros(count, dtype=torch.long),
        old_logprobs=torch.zeros(count),
        entropies=torch.zeros(count),
    )


def _in_groups(texts: Sequence[str], size: int) -> list[list[str | None]]:
    return [[*texts[at : at + size]] for at in range(0, len(texts), size)]


def answering(played: Sequence[Played]) -> list[str]:
    """Return the roles of the turns that answer, in order."""
    return [one.turn.role for one in played if one.turn.judges is None]


def _before(played: Sequence[Played], number: int) -> Tensor:
    """Return [S]: what the last answer before each row of a turn is worth; 0 without one."""
    earlier = answering(played[:number])
    return torch.tensor([text.worth[earlier[-1]] if earlier else 0.0 for text in played[number].texts])


def _after(played: Sequence[Played], number: int) -> Tensor:
    """Return [S]: what the answers of the next turn that answers are worth on average; the row's own without one."""
    own = played[number]
    later = next((at for at in range(number + 1, len(played)) if played[at].turn.judges is None), None)
    if later is None:
        return torch.tensor([text.worth[own.turn.role] for text in own.texts])
    worths: list[list[float]] = [[] for _ in own.texts]
    for text in played[later].texts:
        row = text.parent
        for at in range(later - 1, number, -1):
            row = played[at].texts[row].parent
        worths[row].append(text.worth[played[later].turn.role])
    return torch.tensor([mean_of(found) for found in worths])


def mean_of(values: Sequence[float]) -> float:
    """Return the mean of the values that are no NaN; NaN without any."""
    known = [value for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else math.nan
