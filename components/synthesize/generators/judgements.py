"""Judgements of right and wrong responses in the words in which a judge will be asked: what a verifier model learns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from components.judges.lessons import Lessons
from components.synthesize.asking import ask
from components.synthesize.context import GeneratorContext
from components.synthesize.made import Dropped, Made
from components.synthesize.parsing import UNPARSED, unusable
from components.synthesize.sifting import OVER_CAP, REPEATED, Judged, judged
from components.synthesize.teaching import TeachingConfig, case_of, taught
from components.synthesize.writers import Text, Writers
from components.tasks.given_answers import given_answer
from components.tasks.item import Item

UNBALANCED, WRONG_VERDICT = "unbalanced", "wrong_verdict"


class JudgementsConfig(TeachingConfig):
    """Whether verdicts are balanced, and who words them."""

    balance: bool = False
    """Whether a prompt keeps as many right responses as wrong ones; the surplus is dropped."""
    final_answer: bool = False
    """Whether the judge will read the final answer alone, as reward `judged_answer` shows it; responses without one are
    dropped, and equal answers are one response."""
    worded: bool = False
    """Whether the judges (input `judges`, `judge_programs`) write the judgement, a thought before the verdict if they
    like; one whose verdict is not the verifier's is dropped. Otherwise a row is the verdict alone."""

    @property
    def judges(self) -> bool:  # type: ignore[override]
        """Return whether judges are asked."""
        return self.worded


def judgements(
    items: Sequence[Item], writers: Writers, context: GeneratorContext, *, config: JudgementsConfig
) -> Iterator[Made | Dropped]:
    """Yield what a judge should say of each item's distinct responses, whose worth is the score of the item's verifier.

    A program that words them reads `data`: the `request`, "judge", the `response`, and `endings`, the texts that are
    read as the verdicts `right` and `wrong`.

    Source: Ma et al. 2025 (General-Reasoner, arXiv:2505.14652): a small verifier model is trained on judgements of
    candidate answers.
    """
    lessons = Lessons(config.judge)
    asked: list[tuple[Item, Judged]] = []
    for item, found in zip(items, judged(items, writers.write(items, context.drawing(config, "draw"))), strict=True):
        chosen, dropped = _chosen(found, config)
        yield from map(Dropped, dropped)
        asked += [(item, one) for one in chosen]
    if not config.worded:
        yield from (taught(lessons, item, one.text, one.score, one.writer) for item, one in asked)
        return
    requests = [_request(lessons, item, one) for item, one in asked]
    texts = writers.write(requests, context.drawing(config, "judge", num_samples=1), judges=True)
    for (item, one), said in zip(asked, texts, strict=True):
        yield from (_worded(lessons, item, one, text) for text in said)


def _chosen(found: Sequence[Judged], config: JudgementsConfig) -> tuple[list[Judged], list[str]]:
    """Return the distinct responses that are judged, and why the others are not."""
    dropped: list[str] = []
    by_label: dict[bool, dict[str, Judged]] = {True: {}, False: {}}
    for one in found:
        if one.verdict is None or one.verdict.failed:
            dropped.append(one.dropped or "")
            continue
        shown = replace(one, text=given_answer(one.text) or "") if config.final_answer else one
        if not shown.text:
            dropped.append(UNPARSED)
        elif by_label[one.verdict.right].setdefault(shown.text, shown) is not shown:
            dropped.append(REPEATED)
    fewest = min(map(len, by_label.values())) if config.balance else None
    chosen: list[Judged] = []
    for texts in by_label.values():
        kept = list(texts.values())[:fewest]
        over = kept[config.max_per_prompt :] if config.max_per_prompt else []
        dropped += [UNBALANCED] * (len(texts) - len(kept)) + [OVER_CAP] * len(over)
        chosen += kept[: config.max_per_prompt]
    return chosen, dropped


def _request(lessons: Lessons, item: Item, one: Judged) -> Item:
    """Return the request to the judges: the text of the judge's own, with what programs read beside it."""
    request = lessons.request(case_of(item), one.text)
    endings = {name: lessons.form(lessons.verdict(score), request) for name, score in (("right", 1.0), ("wrong", 0.0))}
    asked = ask(item, "judge", "", shown={"response": one.text}, endings=endings)
    return asked.model_copy(update={"prompt": request.text})


def _worded(lessons: Lessons, item: Item, one: Judged, text: Text | None) -> Made | Dropped:
    """Return the row of a judgement in the judge's own words, where its verdict is the verifier's."""
    if (reason := unusable(text)) or text is None:
        return Dropped(reason or "")
    row = taught(lessons, item, one.text, one.score, one.writer)
    if isinstance(row, Dropped):
        return row
    said = lessons.read(text.text, lessons.request(case_of(item), one.text))
    if said is None:
        return Dropped(UNPARSED)
    if abs(said - lessons.worth(row.item.answer)) > 1e-9:
        return Dropped(WRONG_VERDICT)
    return Made(row.item, text.text, {**row.extras, "judge": text.writer})
