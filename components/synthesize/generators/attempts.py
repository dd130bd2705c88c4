"""Attempts to be criticised: prompts that ask whether a response is right, and keep the task, to be answered again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from pydantic import Field, field_validator

from components.synthesize.config import GeneratorConfig, Kind
from components.synthesize.context import GeneratorContext
from components.synthesize.made import Dropped, Made
from components.synthesize.shown import as_shown
from components.synthesize.sifting import OVER_CAP, REPEATED, judged
from components.synthesize.writers import Writers
from components.tasks.item import Item, item_id
from components.tasks.questions import check_question, filled
from components.tasks.revised import about
from components.tasks.two_texts import check_two


class AttemptsConfig(GeneratorConfig):
    """What is asked about a response."""

    kind: ClassVar[Kind] = "prompts"
    question: str = "{prompt}\nA response: {response}\nIs it right? Say why, then <answer>right or <answer>wrong."
    """The prompt of a row; {prompt} and {response} are replaced."""
    words: tuple[str, str] = ("right", "wrong")
    """The two verdicts; the one that is due is the row's answer."""
    max_per_prompt: int | None = Field(default=1, ge=1)
    """Most responses of a prompt, in the order drawn; null keeps all that differ."""

    @field_validator("words")
    @classmethod
    def _two(cls, value: tuple[str, str]) -> tuple[str, str]:
        return check_two("generator attempts: words", value)

    @field_validator("question")
    @classmethod
    def _whole(cls, value: str) -> str:
        names = ("prompt", "response")
        return check_question("generator attempts", value, names, needs=names)


def attempts(
    items: Sequence[Item], writers: Writers, context: GeneratorContext, *, config: AttemptsConfig
) -> Iterator[Made | Dropped]:
    """Yield a row for each distinct response of the writers that could be verified, as often right as they are.

    A row's verifier is `exact`, on the verdict; its data hold the task and the response, from which metric `revision`
    has the task answered again. Source: Xi et al. 2025, Critique-RL: attempts are the actor's own.
    """
    drawn = writers.write(items, context.drawing(config, "draw"))
    for item, found in zip(items, judged(items, drawn), strict=True):
        kept: set[str] = set()
        for one in found:
            if one.verdict is None or one.verdict.failed:
                yield Dropped(one.dropped or "")
            elif one.text in kept:
                yield Dropped(REPEATED)
            elif config.max_per_prompt is not None and len(kept) == config.max_per_prompt:
                yield Dropped(OVER_CAP)
            else:
                kept.add(one.text)
                shown = {"prompt": item.prompt, "response": as_shown(one.text, writers)}
                prompt = filled(config.question, shown)
                yield Made(_row(item, one.text, prompt, config.words[not one.verdict.right]))


def _row(item: Item, response: str, prompt: str, verdict: str) -> Item:
    return Item(
        id=item_id(item.domain, prompt, verdict),
        domain=item.domain,
        prompt=prompt,
        answer=verdict,
        verifier="exact",
        data=about(item, response),
    )
