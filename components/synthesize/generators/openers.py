"""Openers: the first step of a solution and nothing more, marked wrong. What keeps a judge from master keys."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from pydantic import Field

from components.contract.regular import RegularExpression
from components.judges.lessons import Lessons
from components.synthesize.context import GeneratorContext
from components.synthesize.made import Dropped, Made
from components.synthesize.parsing import unusable
from components.synthesize.sifting import OVER_CAP, REPEATED
from components.synthesize.teaching import TeachingConfig, taught
from components.synthesize.writers import Text, Writers
from components.tasks.answers import ANSWER_OPEN
from components.tasks.item import Item
from components.tasks.verify import verify_all

NO_STEPS, ANSWERS = "no_steps", "answers"


class OpenersConfig(TeachingConfig):
    """Where the first step ends."""

    num_samples: int = Field(default=1, ge=1)
    """Texts that each writer writes to one prompt."""
    between: RegularExpression = Field(default=r"(?<=[.!?:])\s+|\n+", min_length=1)
    """Regular expression of what stands between two steps; the first ends there, or before the mark of the answer."""


def openers(
    items: Sequence[Item], writers: Writers, context: GeneratorContext, *, config: OpenersConfig
) -> Iterator[Made | Dropped]:
    """Yield what a judge should say of the first step of each solution: the lowest verdict.

    The solution itself may be right or wrong. A text of one step is no opener, and neither is a first step that answers
    the item: it is dropped as `answers`.

    Source: Zhao et al. 2025 (arXiv:2507.08794), section 4: a solution of a language model is cut to its first sentence
    and marked NO.
    """
    lessons = Lessons(config.judge)
    found: list[tuple[Item, str, str]] = []
    for item, texts in zip(items, writers.write(items, context.drawing(config, "draw")), strict=True):
        cut, dropped = _first_steps(texts, config)
        yield from map(Dropped, dropped)
        found += [(item, opener, writer) for opener, writer in cut.items()]
    verdicts = verify_all((item, opener) for item, opener, _ in found)
    for (item, opener, writer), verdict in zip(found, verdicts, strict=True):
        yield Dropped(ANSWERS) if verdict.right else taught(lessons, item, opener, 0.0, writer)


def first_step(text: str, between: str) -> str | None:
    """Return the first step of a text, before any answer; None where it is all of the text, or nothing."""
    before, mark, _ = text.strip().partition(ANSWER_OPEN)
    step = re.split(between, before.strip(), maxsplit=1)[0].strip()
    return step if step and (mark or step != before.strip()) else None


def _first_steps(texts: Sequence[Text | None], config: OpenersConfig) -> tuple[dict[str, str], list[str]]:
    """Return distinct openers with their writers, and why other texts give none."""
    kept: dict[str, str] = {}
    dropped: list[str] = []
    for one in texts:
        if (reason := unusable(one)) or one is None:
            dropped.append(reason or "")
        elif (opener := first_step(one.text, config.between)) is None:
            dropped.append(NO_STEPS)
        elif opener in kept:
            dropped.append(REPEATED)
        elif config.max_per_prompt is not None and len(kept) >= config.max_per_prompt:
            dropped.append(OVER_CAP)
        else:
            kept[opener] = one.writer
    return kept, dropped
