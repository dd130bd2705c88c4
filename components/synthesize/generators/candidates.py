"""Right and wrong responses with their labels: what judges, critics and scorers learn from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import Field, model_validator

from components.synthesize.asking import judgement
from components.synthesize.config import GeneratorConfig, Kind
from components.synthesize.context import GeneratorContext
from components.synthesize.made import Dropped, Made
from components.synthesize.sifting import OVER_CAP, REPEATED, Judged, judged
from components.synthesize.templates import check_template, fill
from components.synthesize.writers import Writers
from components.tasks.item import Item

UNBALANCED = "unbalanced"


class CandidatesConfig(GeneratorConfig):
    """Which responses are kept, and how they become rows."""

    balance: bool = False
    """Whether a prompt keeps as many right responses as wrong ones; the surplus is dropped."""
    max_per_prompt: int | None = Field(default=None, ge=1)
    """Most responses of a prompt, of each label; null keeps all."""
    question: str | None = None
    """Unset, rows are labelled responses (`completion`, `label`, `score`). Set, rows are prompts that ask whether a
    response is right: {prompt} and {response} are replaced, and the answer is one of `words`."""
    words: tuple[str, str] = ("right", "wrong")
    """The answers to `question`."""

    @property
    def kind(self) -> Kind:  # type: ignore[override]
        """Return labelled, or prompts where a question is asked."""
        return "labelled" if self.question is None else "prompts"

    @model_validator(mode="after")
    def _question_is_whole(self) -> CandidatesConfig:
        if self.question is not None:
            check_template("question", self.question, needs=("prompt", "response"))
        return self


def candidates(
    items: Sequence[Item], writers: Writers, context: GeneratorContext, *, config: CandidatesConfig
) -> Iterator[Made | Dropped]:
    """Yield the judged responses to each item, distinct and perhaps balanced (Ruan et al. 2025, Critique-Coder)."""
    for item, found in zip(items, judged(items, writers.write(items, context.drawing(config, "draw"))), strict=True):
        yield from _of_item(item, found, config)


def _of_item(item: Item, found: Sequence[Judged], config: CandidatesConfig) -> Iterator[Made | Dropped]:
    by_label: dict[bool, dict[str, Judged]] = {True: {}, False: {}}
    for one in found:
        if one.verdict is None or one.verdict.failed:
            yield Dropped(one.dropped or "")
        elif by_label[one.verdict.right].setdefault(one.text, one) is not one:
            yield Dropped(REPEATED)
    fewest = min(map(len, by_label.values())) if config.balance else None
    for label, texts in by_label.items():
        kept = list(texts.values())[:fewest]
        yield from [Dropped(UNBALANCED)] * (len(texts) - len(kept))
        yield from [Dropped(OVER_CAP)] * len(kept[config.max_per_prompt :] if config.max_per_prompt else ())
        for one in kept[: config.max_per_prompt]:
            yield _row(item, one, label, config)


def _row(item: Item, one: Judged, label: bool, config: CandidatesConfig) -> Made:
    assert one.verdict is not None
    marks: dict[str, Any] = {"quality": one.writer, "label": label}
    if config.question is None:
        return Made(item, one.text, {**marks, "score": one.verdict.score})
    prompt = fill(config.question, prompt=item.prompt, response=one.text)
    return Made(judgement(item, prompt, config.words[not label]), None, {**marks, "of": item.id})
