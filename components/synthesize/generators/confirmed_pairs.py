"""Pairs of rankings that the verifier confirms: its counts say how right a judge's rankings are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import ClassVar, Literal

from components.contract.errors import InputError
from components.synthesize.config import GeneratorConfig
from components.synthesize.context import GeneratorContext
from components.synthesize.made import Dropped, Made
from components.synthesize.sifting import FAILED
from components.synthesize.writers import Writers
from components.tasks.item import Item
from components.tasks.orders import JUDGED, RANKED
from components.tasks.row_kinds.preferences import CHOSEN, LABEL_SOURCE, MARGIN, REJECTED
from components.tasks.verify import verify_all

CONTRADICTED = "contradicted"


class ConfirmedPairsConfig(GeneratorConfig):
    """Which ranking of an item is read."""

    kind: ClassVar[Literal["preferences"]] = "preferences"
    writes: ClassVar[bool] = False
    labelled: ClassVar[bool] = False
    order: Literal["ranked", "judged"] = "ranked"
    """ranked: the order that was taken. judged: the judge's whole ranking, as `agreed_rankings` keeps both."""


def confirmed_pairs(
    items: Sequence[Item], writers: Writers, context: GeneratorContext, *, config: ConfirmedPairsConfig
) -> Iterator[Made | Dropped]:
    """Yield each pair of a ranking whose better response the verifier scores higher; `margin` is the difference.

    A pair that it scores the other way round is dropped as `contradicted`; one of equal scores is not counted at all,
    and rows of one ranking count once. So `num_rows` over `num_drawn` is how often the judge agrees with the verifier:
    what CycleAlign (arXiv:2310.16271) measures of its judge, with people in the verifier's place.
    """
    key = {"ranked": RANKED, "judged": JUDGED}[config.order]
    seen: set[tuple[str, tuple[str, ...]]] = set()
    for item in items:
        texts = item.data.get(key)
        if not (isinstance(texts, list) and all(isinstance(text, str) for text in texts)):
            raise InputError(
                f"generator confirmed_pairs: item {item.id} has no ranking (data.{key}); take the rows of "
                "generator agreed_rankings"
            )
        if (item.prompt, tuple(texts)) in seen:
            continue
        seen.add((item.prompt, tuple(texts)))
        yield from _of_ranking(item, texts)


def _of_ranking(item: Item, texts: Sequence[str]) -> Iterator[Made | Dropped]:
    verdicts = verify_all((item, text) for text in texts)
    for (better, first), (worse, second) in combinations(zip(texts, verdicts, strict=True), 2):
        if first.failed or second.failed:
            yield Dropped(FAILED)
        elif first.score < second.score:
            yield Dropped(CONTRADICTED)
        elif first.score > second.score:
            margin = first.score - second.score
            yield Made(item, None, {CHOSEN: better, REJECTED: worse, MARGIN: margin, LABEL_SOURCE: item.verifier})
