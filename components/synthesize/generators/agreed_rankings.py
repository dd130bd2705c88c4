"""Responses in the order that a judge and their own writer agree on; rankings of before show the judge how to rank."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar, Literal

from pydantic import Field

from components.contract.errors import InputError
from components.judges.config import ListwiseConfig
from components.judges.fencing import Request, request_of
from components.judges.reading import Unread, ranking_of, said_behind
from components.modeling.serving.models import Likelihood, as_text
from components.synthesize.asking import REQUEST
from components.synthesize.config import GeneratorConfig
from components.synthesize.context import GeneratorContext
from components.synthesize.distinct import distinct
from components.synthesize.made import Dropped, Made
from components.synthesize.parsing import unusable
from components.synthesize.writers import Text, Writers
from components.tasks.item import Item
from components.tasks.orders import JUDGED, RANKED, common_order
from components.tasks.row_kinds.preferences import LABEL_SOURCE

UNSCORED, UNJUDGED, NO_CONTRAST, DISAGREED = "unscored", "unjudged", "no_contrast", "disagreed"


class ShownConfig(ListwiseConfig):
    """A judge that is shown rankings of other tasks first."""

    parts: ClassVar[tuple[str, ...]] = ("responses", "examples")
    question: ClassVar[str] = (
        "Rank the responses to the task, the best first. These tasks have responses in the right order:\n{examples}\n\n"
        "Task:\n{task}\n\n{responses}\n\n"
    )
    reading: Literal["mark"] = "mark"
    """mark: what stands behind `mark`."""


class AgreedRankingsConfig(GeneratorConfig):
    """Whose order is taken, and what the judge is shown."""

    kind: ClassVar[Literal["labelled"]] = "labelled"
    judges: ClassVar[bool] = True
    labelled: ClassVar[bool] = False
    order: Literal["agreed", "judge"] = "agreed"
    """agreed: the longest sub-order of the judge's ranking that the first model at `scorers` gives too, by the mean
    log-probability of a token. judge: the judge's ranking, without a scorer."""
    demonstrations: int = Field(default=2, ge=0, le=16)
    """Rankings of other prompts that a request shows, drawn from those that the inputs hold; fewer where there are."""
    judge: ShownConfig = ShownConfig()
    """How the judge is asked, once for all responses to a prompt."""

    @property
    def scorers(self) -> bool:  # type: ignore[override]
        """Return whether a scorer is asked."""
        return self.order == "agreed"


def agreed_rankings(
    items: Sequence[Item], writers: Writers, context: GeneratorContext, *, config: AgreedRankingsConfig
) -> Iterator[Made | Dropped]:
    """Yield for each item the responses of its agreed order, with their place from the end as `score`.

    Items with `ranked` in their data are demonstrations, such as the rows of an earlier cycle: nothing is written to
    them. A response outside of the agreed order is dropped as `disagreed`; so are all where fewer than two are left.
    Source: CycleAlign (arXiv:2310.16271), section 3: m responses, one ranking of the judge and one of the policy by
    length-normalised likelihood, and what both agree on as the label and as the next demonstration.
    """
    examples = demonstrations_of(context.pool)
    new = [item for item in items if RANKED not in item.data]
    kept = []
    for item, texts in zip(new, writers.write(new, context.drawing(config, "draw")), strict=True):
        found, dropped = distinct(texts)
        yield from map(Dropped, dropped)
        if len(found) > 1:
            kept.append((item, found))
        else:
            yield from [Dropped(NO_CONTRAST)] * len(found)
    own = _own_orders(kept, writers, config)
    judged = _judged(kept, examples, writers, context, config)
    for (item, found), order, ranking in zip(kept, own, judged, strict=True):
        yield from _of_item(item, found, order, ranking, writers.judges[0].name)


def demonstrations_of(pool: Sequence[Item]) -> list[Item]:
    """Return one item for each ranking among items: all rows of a ranking hold it."""
    found: dict[tuple[str, tuple[str, ...]], Item] = {}
    for item in pool:
        if (ranked := item.data.get(RANKED)) is None:
            continue
        if not (isinstance(ranked, list) and len(ranked) > 1 and all(isinstance(text, str) for text in ranked)):
            raise InputError(f"generator agreed_rankings: item {item.id}: data.ranked is no list of responses")
        found.setdefault((item.prompt, tuple(ranked)), item)
    return list(found.values())


def _own_orders(
    kept: Sequence[tuple[Item, Sequence[Text]]], writers: Writers, config: AgreedRankingsConfig
) -> list[list[int] | None]:
    """Return the scorer's order of each list; None where it cannot score one, and without a scorer a list of none."""
    if config.order == "judge":
        return [[] for _ in kept]
    pairs = [(as_text(item.task), one.text) for item, found in kept for one in found]
    told = iter(writers.scorers[0].score(pairs) if pairs else [])
    return [_by_likelihood([next(told) for _ in found]) for _, found in kept]


def _by_likelihood(told: Sequence[Likelihood | None]) -> list[int] | None:
    means = [one.mean for one in told if one is not None]
    return None if len(means) < len(told) else sorted(range(len(means)), key=lambda place: -means[place])


def _judged(
    kept: Sequence[tuple[Item, Sequence[Text]]],
    examples: Sequence[Item],
    writers: Writers,
    context: GeneratorContext,
    config: AgreedRankingsConfig,
) -> list[list[int] | None]:
    """Return the ranking of each list by the first judge whose words can be read; None where there is none."""
    marks = [mark for judge in writers.judges for mark in getattr(judge, "control_marks", ())]
    requests = []
    for item, found in kept:
        others = [one for one in examples if one.prompt != item.prompt]
        rng = context.rng("shown", item.id)
        shown = rng.sample(others, min(config.demonstrations, len(others)))
        requests.append(_request(item, [one.text for one in found], shown, config.judge, marks))
    drawing = replace(
        context.drawing(config, "rank", num_samples=1),
        max_new_tokens=config.judge.max_new_tokens,
        temperature=config.judge.temperature,
    )
    said = writers.write([asked for asked, _ in requests], drawing, judges=True)
    return [
        _read(texts, request, len(found), config.judge)
        for texts, (_, request), (_, found) in zip(said, requests, kept, strict=True)
    ]


def _request(
    item: Item, texts: Sequence[str], shown: Sequence[Item], judge: ShownConfig, marks: Sequence[str]
) -> tuple[Item, Request]:
    """Return what the judge is asked, its data for programs, and what of it others wrote."""
    examples = [
        "\n".join([one.prompt, *(f"{place}. {text}" for place, text in enumerate(one.data[RANKED], 1))])
        for one in shown
    ]
    judged = {"task": item.prompt, "responses": list(texts), "examples": examples}
    request = request_of(judge.wording, judged, {"scale": judge.scale, "mark": judge.mark}, judge.fence, marks)
    data = {
        REQUEST: "rank",
        "responses": list(texts),
        "demonstrations": [one.row() for one in shown],
        "mark": judge.mark.replace("{nonce}", request.nonce),
    }
    asked = item.model_copy(update={"prompt": request.text, "messages": (), "data": {**item.data, **data}})
    return asked, request


def _read(texts: Sequence[Text | None], request: Request, count: int, judge: ShownConfig) -> list[int] | None:
    mark = judge.mark.replace("{nonce}", request.nonce)
    for one in texts:
        if one is None or unusable(one):
            continue
        try:
            return ranking_of(said_behind(mark, one.text, request), count)
        except Unread:
            continue
    return None


def _of_item(
    item: Item, found: Sequence[Text], own: list[int] | None, judged: list[int] | None, judge: str
) -> Iterator[Made | Dropped]:
    if judged is None or own is None:
        yield from [Dropped(UNJUDGED if judged is None else UNSCORED)] * len(found)
        return
    taken = common_order(judged, own) if own else judged
    if len(taken) < 2:
        yield from [Dropped(DISAGREED)] * len(found)
        return
    yield from [Dropped(DISAGREED)] * (len(found) - len(taken))
    orders = {name: [found[place].text for place in order] for name, order in ((RANKED, taken), (JUDGED, judged))}
    for place, number in enumerate(taken):
        row = item.model_copy(update={"id": f"{item.id}-ranked", "data": {**item.data, **orders}})
        extras = {"score": float(len(taken) - 1 - place), "quality": found[number].writer, LABEL_SOURCE: judge}
        yield Made(row, found[number].text, extras)
