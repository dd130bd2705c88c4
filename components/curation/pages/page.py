"""The card as one self-contained page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from components.curation.pages.place import CARD
from components.pages.pages import render

TITLES = {
    "prompt_chars": "Characters in the prompt",
    "answer_chars": "Characters in the answer",
    "response_chars": "Characters in the response",
    "text_chars": "Characters in the text",
    "pass_rate": "Pass rate under the given policy",
}
WIDTH, HEIGHT, MARGIN = 420, 120, 18


def render_page(card: Mapping[str, Any]) -> str:
    """Return the HTML page of a card; all data is escaped, and the page loads nothing."""
    before, after = card["domains"]["before"], card["domains"]["after"]
    return render(
        CARD,
        title="Dataset card",
        card=card,
        sources=[_source(source) for source in card["sources"]],
        domains=[(name, count, after.get(name, 0)) for name, count in before.items()],
        histograms=[_histogram(TITLES[name], histogram) for name, histogram in sorted(card["histograms"].items())],
    )


def _source(source: Mapping[str, Any]) -> tuple[Any, ...]:
    facts = {key: value for key, value in source["origin"].items() if key not in ("source", "name")}
    name = f"{source['origin'].get('source', '')} {source['origin'].get('name', '')}".strip()
    detail = ", ".join(f"{key} {value}" for key, value in facts.items() if value not in (None, {}, []))
    return (name, source["domain"] or "from rows", detail, source["drawn"], source["kept"])


def _histogram(title: str, histogram: Mapping[str, Any]) -> dict[str, Any]:
    """Return the chart of a histogram: shares, so that before and after compare despite different row counts."""
    size = {"width": WIDTH, "height": HEIGHT, "margin": MARGIN}
    ends = {"first": f"{histogram['edges'][0]:g}", "last": f"{histogram['edges'][-1]:g}"}
    return {"title": title, "bars": list(_bars(histogram)), **ends, **size}


def _bars(histogram: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    series = [name for name in ("before", "after") if name in histogram]
    shares = {name: _shares(histogram[name]) for name in series}
    top = max((max(values, default=0) for values in shares.values()), default=0) or 1
    edges = histogram["edges"]
    slot = WIDTH / max(1, len(edges) - 1)
    width = slot * 0.8 / len(series)
    for place, name in enumerate(series):
        for index, share in enumerate(shares[name]):
            yield {
                "series": name,
                "x": index * slot + slot * 0.1 + place * width,
                "width": width,
                "height": share / top * HEIGHT,
                "tip": f"{edges[index]:g} to {edges[index + 1]:g}: {histogram[name][index]:,} ({share:.1%})",
            }


def _shares(counts: list[int]) -> list[float]:
    total = sum(counts)
    return [count / total if total else 0.0 for count in counts]
