"""Responses asked again with the options in another order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from components.tasks.options import OPTIONS, chosen_option, reordered, same_thought
from components.tasks.seeds import derive_rng, derive_seed
from components.tasks.verify import verify

if TYPE_CHECKING:
    from components.measure.harness.context import MeasureContext
    from components.measure.outcomes import ItemOutcomes
    from components.tasks.item import Item


@dataclass(frozen=True)
class Question:
    """A response that is asked again."""

    prompt: int
    """Place of its prompt."""
    item: Item
    """With the options in another order."""
    order: tuple[int, ...]
    first: int
    """The option that the response chose."""
    thought: str


def reanswered(
    outcomes: Sequence[ItemOutcomes], context: MeasureContext, *, max_new_tokens: int
) -> dict[str, list[float | None]]:
    """Return `consistency`, `shuffled_right` and `consistency_asked` of each prompt."""
    asked = [question for place, outcome in enumerate(outcomes) for question in _questions(place, outcome, context)]
    same: dict[int, list[bool]] = {}
    right: dict[int, list[bool]] = {}
    for question, answer in zip(asked, _answers(asked, context, max_new_tokens), strict=True):
        chosen = chosen_option(question.item, answer)
        same.setdefault(question.prompt, []).append(chosen is not None and question.order[chosen] == question.first)
        right.setdefault(question.prompt, []).append(verify(question.item, answer).right)
    places = range(len(outcomes))
    return {
        "consistency": [_share(same.get(place)) for place in places],
        "shuffled_right": [_share(right.get(place)) for place in places],
        "consistency_asked": [
            len(same.get(place, ())) / outcome.num_verified if outcome.num_verified else None
            for place, outcome in enumerate(outcomes)
        ],
    }


def _questions(place: int, outcome: ItemOutcomes, context: MeasureContext) -> list[Question]:
    item = outcome.item
    options = item.data.get(OPTIONS)
    if not isinstance(options, list) or len(options) < 2:
        return []
    order = list(range(len(options)))
    shuffled = derive_rng(context.seed, "shuffle_consistency", item.id)
    while order == sorted(order):
        shuffled.shuffle(order)
    again = reordered(item, order)
    if again is None:
        return []
    chosen = [(index, chosen_option(item, outcome.responses[index])) for index in outcome.verified()]
    return [
        Question(place, again, tuple(order), first, same_thought(outcome.responses[index], order))
        for index, first in chosen
        if first is not None
    ]


def _answers(asked: Sequence[Question], context: MeasureContext, max_new_tokens: int) -> list[str]:
    """Return the text of every second answer, its thought included; each distinct question is drawn once."""
    import torch

    from components.modeling.generation.sampling_config import SamplingConfig
    from components.modeling.text.prompting import decode_responses, encode_examples

    assert context.sampler is not None
    policy = context.sampler.policy
    distinct = list(dict.fromkeys((question.item.prompt, question.thought) for question in asked))
    if not distinct:
        return []
    encoded = encode_examples(policy.tokenizer, distinct, policy.ends)
    generator = torch.Generator().manual_seed(derive_seed(context.seed, "shuffle_consistency"))
    samples = context.sampler.sample(
        [one.tokens[:-1] for one in encoded],  # without the end mark
        SamplingConfig(num_samples=1, max_new_tokens=max_new_tokens, temperature=0.0),
        generator=generator,
    )
    wordings = [prompt for prompt, _ in distinct]
    written = decode_responses(policy.tokenizer, samples.responses(), policy.ends, wordings=wordings)
    found = {key: key[1] + text for key, text in zip(distinct, written, strict=True)}
    return [found[question.item.prompt, question.thought] for question in asked]


def _share(found: list[bool] | None) -> float | None:
    return sum(found) / len(found) if found else None
