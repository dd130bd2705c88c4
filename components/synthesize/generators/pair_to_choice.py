"""A better and a worse response to a task as a question with two options, whose answer is a letter (VMR)."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

from pydantic import Field, field_validator

from components.synthesize.config import GeneratorConfig, Kind
from components.synthesize.context import GeneratorContext
from components.synthesize.made import Dropped, Made
from components.synthesize.shown import as_shown
from components.synthesize.sifting import OVER_CAP, judged
from components.synthesize.writers import Writers
from components.tasks.answers import extract_answer
from components.tasks.item import RIGHT_RESPONSES, Item, item_id
from components.tasks.options import LETTERS, OPTIONS
from components.tasks.questions import check_question, filled

NO_CONTRAST = "no_contrast"
OF_TASK = ("settings", RIGHT_RESPONSES)
"""Keys of an item's data that are about its own verifier and answer, which a row does not have."""


class PairToChoiceConfig(GeneratorConfig):
    """What is shown of the two, in which order, and whether the letter tells the truth."""

    kind: ClassVar[Kind] = "prompts"
    question: str = "{prompt} A:{a} B:{b}"
    """The prompt of a row; {prompt}, {a} and {b} are replaced."""
    shows: Literal["response", "answer"] = "response"
    """The whole response, or its final answer alone; two that show the same are no pair."""
    orders: Literal["random", "both"] = "random"
    """random: one row, the better one at a place drawn evenly. both: a row of each order."""
    labels: Literal["gold", "shuffled"] = "gold"
    """shuffled: the letter is drawn evenly, whatever is better: the control of a claim about what is learned."""
    max_per_prompt: int | None = Field(default=1, ge=1)
    """Most pairs of a prompt; each response is in one pair at most."""

    @field_validator("question")
    @classmethod
    def _whole(cls, value: str) -> str:
        names = ("prompt", "a", "b")
        return check_question("generator pair_to_choice", value, names, needs=names)


def pair_to_choice(
    items: Sequence[Item], writers: Writers, context: GeneratorContext, *, config: PairToChoiceConfig
) -> Iterator[Made | Dropped]:
    """Yield rows that ask which of a right and a wrong response is better; verifier `choice`.

    Data hold `options` and the task as `question`, beside the item's own: demonstrator `choice` can work it out.
    Source: Zhang et al. 2025 (arXiv:2511.02463), Verifiable Multiple-Choice Reformulation: a pair in random order, and
    its place as the answer. Ours: better is what the task's verifier says.
    """
    drawn = writers.write(items, context.drawing(config, "draw"))
    for item, found in zip(items, judged(items, drawn), strict=True):
        sides: dict[bool, dict[str, None]] = {True: {}, False: {}}
        for one in found:
            if one.verdict is None or one.verdict.failed:
                yield Dropped(one.dropped or "")
                continue
            shown = one.text.strip() if config.shows == "response" else extract_answer(one.text)
            if shown:
                sides[one.verdict.right][shown] = None
        pairs = [pair for pair in zip(*sides.values(), strict=False) if pair[0] != pair[1]]
        if not pairs:
            yield Dropped(NO_CONTRAST)
        yield from [Dropped(OVER_CAP)] * len(pairs[config.max_per_prompt :] if config.max_per_prompt else ())
        for number, (better, worse) in enumerate(pairs[: config.max_per_prompt]):
            yield from _rows(item, better, worse, context.rng("order", item.id, number), config, writers)


def _rows(
    item: Item, better: str, worse: str, rng: random.Random, config: PairToChoiceConfig, writers: Writers
) -> Iterator[Made]:
    kept = {key: value for key, value in item.data.items() if key not in OF_TASK}
    places = (0, 1) if config.orders == "both" else (rng.randrange(2),)
    for place in places:
        options = [worse, worse]
        options[place] = better
        letter = LETTERS[place if config.labels == "gold" else rng.randrange(2)]
        first, second = (as_shown(option, writers) for option in options)
        prompt = filled(config.question, {"prompt": item.prompt, "a": first, "b": second})
        changes = {
            "id": item_id(item.domain, prompt, letter),
            "prompt": prompt,
            "messages": (),
            "answer": letter,
            "verifier": "choice",
            "data": {**kept, OPTIONS: options, "question": item.prompt},
        }
        yield Made(item.model_copy(update=changes), None, {"of": item.id})
