"""The outputs of a stage that makes a dataset: rows and card, page, and metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, count
from types import MappingProxyType
from typing import Any, Protocol

from components.contract.context import StageContext
from components.curation.candidate import Candidate
from components.curation.collect import CollectedRows
from components.curation.pages.card import build_card, write_card
from components.curation.pages.page import render_page
from components.curation.token_count import TokenCount
from components.measure.intervals import Bootstrap, Interval
from components.measure.metrics import write_metrics
from components.tasks.rows import iter_rows, write_rows

TERMS = ("name", "hub", "revision", "license", "sha256")
"""What lineage records of a source with a licence."""


def write_dataset(
    context: StageContext[Any],
    collection: CollectedRows,
    drafts: Sequence[Candidate],
    rows: Iterable[Mapping[str, Any]],
    *,
    kind: str,
    ports: Sequence[str],
    more: Mapping[str, float] = MappingProxyType({}),
    tokens: TokenCount | None = None,
) -> None:
    """Write the `rows` of the kept `drafts` with their card, page and metrics.

    `ports` are the inputs that the card names, `more` further metrics, `tokens` counts them for the card.
    """
    folder = context.output("dataset")
    write_rows(folder, tokens.passing(rows) if tokens else rows)
    inputs = {port: [found.digest for found in context.inputs(port)] for port in ports}
    card = build_card(collection, (row for _, row in iter_rows(folder)), kind, inputs)
    if tokens:
        card["tokens"] = tokens.entry()
        more = {**more, f"num_{tokens.unit}": float(tokens.total)}
    write_card(folder, card)
    context.describe("dataset", kind=kind, num_rows=card["num_rows"], domains=card["domains"]["after"])
    origins = [one["origin"] for one in card["sources"] if "license" in one["origin"]]
    if origins:
        context.describe("dataset", sources=[{key: origin.get(key) for key in TERMS} for origin in origins])
    (context.output("report") / "index.html").write_text(render_page(card), encoding="utf-8")
    metrics = card_metrics(card, drafts) | dict(more)
    write_metrics(context.output("metrics"), metrics)
    context.headline(**{n: value.value if isinstance(value, Interval) else value for n, value in metrics.items()})
    context.progress(card["num_rows"], max(1, card["num_rows"]))


def card_metrics(card: Mapping[str, Any], drafts: Iterable[Candidate]) -> dict[str, Interval | float]:
    """Return the counts of a card as metrics, and the mean pass rate of the kept drafts where it was measured."""
    drops = Counter(card["drops"])
    metrics: dict[str, Interval | float] = {
        "num_rows": float(card["num_rows"]),
        "num_drawn": float(card["num_drawn"]),
        "num_dropped": float(drops.total()),
        "num_missing": float(card["num_missing"]),
        **{f"dropped_{reason}": float(count) for reason, count in sorted(drops.items())},
    }
    rates = [draft.extras["pass_rate"] for draft in drafts if "pass_rate" in draft.extras]
    if rates:
        metrics["mean_pass_rate"] = Bootstrap().mean_interval(rates)
    return metrics


class Names(Protocol):
    """Names that are taken."""

    def __contains__(self, name: str, /) -> bool:
        """Return whether a name is taken."""

    def add(self, name: str, /) -> None:
        """Take a name."""


def unique_id(identifier: str, taken: Names) -> str:
    """Return the id, or the first of id-2, id-3, ... that is free, and take it."""
    free = next(name for name in chain([identifier], (f"{identifier}-{n}" for n in count(2))) if name not in taken)
    taken.add(free)
    return free
