"""Turns of roles: a tree of texts, in which each text of a turn is asked about by the next turn.

Shapes as in components/rl/batch/batch.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from components.contract.errors import InputError, UnknownName
from components.contract.further import PARTNERS
from components.contract.operators import OperatorSpec
from components.modeling.serving.further import FurtherModel
from components.modeling.serving.models import Drawing
from components.rl.batch.batch import FAILED, RIGHT, Batch, Prompt, new_batch
from components.rl.batch.joining import concatenate
from components.rl.role_config import PROMPT, RoleTurn
from components.rl.step.collector import Collector
from components.rl.step.context import SlotContext
from components.tasks.item import item_id
from components.tasks.questions import filled
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


def play(
    prompts: Sequence[Prompt],
    collector: Collector,
    context: SlotContext,
    turns: Sequence[RoleTurn],
    verdict: OperatorSpec,
) -> list[Played]:
    """Return all turns; each asks about every text of the one before that has a question."""
    if any(prompt.gaps for prompt in prompts):
        raise InputError("rl: rollout roles asks for one text a turn, and prompts are conversations of several turns")
    before = [Text(prompt, {PROMPT: prompt.item.prompt}, {}, at) for at, prompt in enumerate(prompts)]
    played: list[Played] = []
    for number, turn in enumerate(turns):
        asked = [
            (at, one, _question(turn, one, collector, verdict))
            for at, one in enumerate(before)
            if turn.judges is None or not math.isnan(one.worth[turn.judges])
        ]
        written, batch = _written(turn, number, [prompt for *_, prompt in asked], collector, context)
        texts = _texts(turn, asked, written, collector)
        played.append(Played(turn, texts, batch))
        before = texts
    return played


def learned_rows(played: Sequence[Played]) -> Batch:
    """Return the rows of the turns that are learned from, with their marks; no row where nothing could be asked."""
    parts = [
        one.batch.with_extras(before_s=_before(played, number), after_s=_after(played, number))
        for number, one in enumerate(played)
        if one.batch is not None
    ]
    if parts:
        return concatenate(parts)
    return _plain([], []).with_extras(before_s=torch.zeros(0), after_s=torch.zeros(0))


def tell(played: Sequence[Played], metrics: dict[str, float]) -> None:
    """Add the shares of right texts, and of answers that a later answer mends and spoils."""
    metrics["partner_texts"] = float(sum(len(one.texts) for one in played if one.turn.by == "partner"))
    for number, one in enumerate(played):
        role = one.turn.role
        earlier = _answering(played[:number])
        found = {"right": [text.worth[role] for text in one.texts]}
        if one.turn.judges is None and earlier:
            pairs = [(text.worth[earlier[-1]], text.worth[role]) for text in one.texts]
            found["mended"] = [now for then, now in pairs if then == 0]
            found["spoiled"] = [1 - now for then, now in pairs if then == 1]
        for name, values in found.items():
            mean = _mean(values)
            if not math.isnan(mean):
                metrics[f"{role}_{name}"] = mean


def _question(turn: RoleTurn, about: Text, collector: Collector, verdict: OperatorSpec) -> Prompt:
    """Return what a turn asks about a text."""
    item, task = about.task.item, about.task
    if turn.question is None:
        return task
    words = filled(turn.question, about.texts)
    changes: dict[str, Any] = {"domain": turn.role, "prompt": words, "messages": (), "answer": item.answer}
    if turn.judges is not None:
        answer = turn.words[about.worth[turn.judges] != 1]
        changes |= {
            "answer": answer,
            "verifier": verdict.name,
            "data": {"settings": verdict.settings} if verdict.settings else {},
        }
    changes["id"] = item_id(turn.role, words, changes["answer"])
    return Prompt(item.model_copy(update=changes), tuple(collector.encode_prompt(words)), of=task.of or item.id)


def _written(
    turn: RoleTurn, number: int, prompts: Sequence[Prompt], collector: Collector, context: SlotContext
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
            seed=derive_seed(context.seed, "roles", turn.role, number, context.step),
        )
        texts = _partner(turn, context).write([prompt.item.task for prompt in chosen], drawing)
        found = [[None if one is None else one.text for one in row] for row in texts]
    by_key = dict(zip(asked, found, strict=True))
    return [by_key[key] for key in (names if temperature == 0 else range(len(prompts)))], None


def _partner(turn: RoleTurn, context: SlotContext) -> FurtherModel:
    models = {model.name: model for model in context.further[PARTNERS]}
    if turn.model is None and len(models) > 1:
        raise InputError(f"rl: turn {turn.role} is one of {len(models)} partners; name one: {', '.join(models)}")
    if turn.model is not None and turn.model not in models:
        raise UnknownName(f"model at input {PARTNERS}", turn.model, models)
    return models[turn.model] if turn.model is not None else next(iter(models.values()))


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


def _answering(played: Sequence[Played]) -> list[str]:
    return [one.turn.role for one in played if one.turn.judges is None]


def _before(played: Sequence[Played], number: int) -> Tensor:
    """Return [S]: what the last answer before each row of a turn is worth; 0 without one."""
    earlier = _answering(played[:number])
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
    return torch.tensor([_mean(found) for found in worths])


def _mean(values: Sequence[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else math.nan
