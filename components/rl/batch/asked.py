"""What a reward model is asked of a batch, and which one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from components.contract.errors import InputError, UnknownName
from components.modeling.serving.models import Asked, Rater
from components.rl.batch.batch import Batch

R = TypeVar("R", bound=Rater)


def asked_pairs(batch: Batch) -> list[tuple[Asked, str]]:
    """Return S pairs of a task, with the turns before the last where there are some, and the response's text."""
    turns = batch.earlier_turns or ((),) * batch.num_responses
    items = (batch.prompts[group].item for group in batch.group.tolist())
    return [
        (item.prompt_with(earlier) if earlier else item.task, text)
        for item, earlier, text in zip(items, turns, batch.texts, strict=True)
    ]


def model_named(models: Sequence[R], name: str | None, user: str) -> R:
    """Return the model of that name, or the only one; raise UnknownName, or InputError where a name is needed."""
    if name is None and len(models) == 1:
        return models[0]
    named = {model.name: model for model in models}
    if name is None:
        raise InputError(f"reward {user} asks one model, and input scorers has {', '.join(named)}; name one in `model`")
    if name not in named:
        raise UnknownName("model at input scorers", name, named)
    return named[name]
