"""Critiques of right and wrong responses, kept where their verdict agrees with the verifier's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from components.contract.errors import InputError
from components.synthesize.asking import ask, judgement
from components.synthesize.config import GeneratorConfig
from components.synthesize.context import GeneratorContext
from components.synthesize.made import Dropped, Made
from components.synthesize.parsing import UNPARSED, unusable
from components.synthesize.sifting import OVER_CAP, REPEATED, judged
from components.synthesize.templates import check_template
from components.synthesize.writers import Text, Writers
from components.tasks.answers import extract_answer
from components.tasks.item import Item

WRONG_VERDICT, NO_RESPONSES = "wrong_verdict", "no_responses"


class CritiquesConfig(GeneratorConfig):
    """Which responses are criticised, and how."""

    judges: ClassVar[bool] = True
    responses: Literal["written", "recorded"] = "written"
    """Whose responses: the writers', or those of input `rollouts`."""
    question: str = "{prompt}\nA response: {response}\nIs it right? Say why, then <answer>right or <answer>wrong."
    """The prompt of a row, which the judges are asked too; {prompt} and {response} are replaced."""
    words: tuple[str, str] = ("right", "wrong")
    """The two verdicts; a critique gives one as its final answer."""
    num_critiques: int = Field(default=1, ge=1)
    """Critiques that each judge writes of a response."""
    max_per_response: int | None = Field(default=1, ge=1)
    """Most critiques of a response; null keeps all."""

    @property
    def writes(self) -> bool:  # type: ignore[override]
        """Return whether writers are asked for responses."""
        return self.responses == "written"

    @model_validator(mode="after")
    def _question_is_whole(self) -> CritiquesConfig:
        check_template("question", self.question, needs=("prompt", "response"))
        return self


def critiques(
    items: Sequence[Item], writers: Writers, context: GeneratorContext, *, config: CritiquesConfig
) -> Iterator[Made | Dropped]:
    """Yield critiques of each item's distinct responses whose verdict is the verifier's; rows ask for the critique.

    Wang et al. 2025 (one-shot critique fine-tuning). A verdict is the final answer of a critique: a response that
    holds a verdict mark is only quoted, and never read for it.
    """
    asked: list[tuple[Item, Item, bool, str]] = []
    for item, found in zip(items, _responses(items, writers, context, config), strict=True):
        for reason in found[1]:
            yield Dropped(reason)
        for text, right in found[0].items():
            truth = config.words[not right]
            request = ask(item, "criticise", config.question, shown={"response": text}, truth=truth)
            asked.append((item, request, right, text))
    drawing = context.drawing(config, "criticise", num_samples=config.num_critiques)
    written = writers.write([request for _, request, _, _ in asked], drawing, judges=True)
    for (item, request, right, _), texts in zip(asked, written, strict=True):
        yield from _kept(judgement(item, request.prompt, config.words[not right]), item.id, texts, config)


def _responses(
    items: Sequence[Item], writers: Writers, context: GeneratorContext, config: CritiquesConfig
) -> list[tuple[dict[str, bool], list[str]]]:
    """Return for each item its distinct responses with whether they are right, and why others are dropped."""
    if config.responses == "recorded":
        if not context.rollouts:
            raise InputError("generator critiques: responses are `recorded`, and no input `rollouts` holds any")
        recorded = [context.rollouts.get(item.id, ()) for item in items]
        return [({one.response: one.right for one in found}, [] if found else [NO_RESPONSES]) for found in recorded]
    results = []
    for found in judged(items, writers.write(items, context.drawing(config, "draw"))):
        kept: dict[str, bool] = {}
        dropped = []
        for one in found:
            if one.verdict is None or one.verdict.failed:
                dropped.append(one.dropped or "")
            elif one.text in kept:
                dropped.append(REPEATED)
            else:
                kept[one.text] = one.verdict.right
        results.append((kept, dropped))
    return results


def _kept(row: Item, of: str, texts: Sequence[Text | None], config: CritiquesConfig) -> Iterator[Made | Dropped]:
    num_kept = 0
    for one in texts:
        if (reason := unusable(one)) or one is None:
            yield Dropped(reason or "")
        elif (verdict := extract_answer(one.text).casefold()) not in map(str.casefold, config.words):
            yield Dropped(UNPARSED)
        elif verdict != row.answer.casefold():
            yield Dropped(WRONG_VERDICT)
        elif config.max_per_response is not None and num_kept == config.max_per_response:
            yield Dropped(OVER_CAP)
        else:
            num_kept += 1
            yield Made(row, one.text, {"of": of, "quality": one.writer})
