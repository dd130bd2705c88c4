"""The card as one self-contained page."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

STYLE = """
:root { color-scheme: light dark; --before: #9aa7b8; --after: #2f6fde; --line: #8884; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; } td, th { padding: .25rem .6rem; border-bottom: 1px solid var(--line);
text-align: left; vertical-align: top; } td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: 0; font-size: .85rem; }
figure { display: inline-block; margin: 0 1.5rem 1rem 0; } figcaption { font-size: .85rem; }
.before { fill: var(--before); } .after { fill: var(--after); } text { font-size: 10px; fill: currentColor; }
.key i { display: inline-block; width: .8em; height: .8em; margin: 0 .3em 0 1em; }
"""
TITLES = {
    "prompt_chars": "Characters in the prompt",
    "answer_chars": "Characters in the answer",
    "response_chars": "Characters in the response",
    "text_chars": "Characters in the text",
    "pass_rate": "Pass rate under the given policy",
}
WIDTH, HEIGHT, MARGIN = 420, 120, 18


def render_page(card: Mapping[str, Any]) -> str:
    """Return the HTML page of a card; everything that comes from data is escaped, and nothing is loaded."""
    sections = [
        f"<h1>Dataset card: {card['num_rows']:,} rows of {escape(card['kind'])}</h1>",
        f"<p>{card['num_drawn']:,} rows were drawn, {sum(card['drops'].values()):,} dropped{_missing(card)}.</p>",
        "<h2>Sources</h2>",
        _sources(card["sources"]),
        "<h2>Rows by domain</h2>",
        _counts("domain", card["domains"]["before"], card["domains"]["after"]),
        "<h2>Dropped rows by reason</h2>",
        _table(("reason", "rows"), [(name, count) for name, count in card["drops"].items()]),
        "<h2>Before and after</h2>",
        '<p class="key"><i style="background:var(--before)"></i>drawn<i style="background:var(--after)"></i>kept</p>',
        *(_histogram(TITLES[name], histogram) for name, histogram in sorted(card["histograms"].items())),
    ]
    if card["qualities"]:
        sections += ["<h2>Who wrote the responses</h2>", _table(("quality", "rows"), list(card["qualities"].items()))]
    if card["buckets"]:
        sections += ["<h2>Difficulty buckets</h2>", _table(("bucket", "rows"), list(card["buckets"].items()))]
    sections += ["<h2>Samples</h2>", *map(_sample, card["samples"])]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Dataset card</title>'
        f"<style>{STYLE}</style></head>\n<body>\n" + "\n".join(sections) + "\n</body></html>\n"
    )


def _missing(card: Mapping[str, Any]) -> str:
    missing = card["num_missing"]
    return f"; <strong>{missing:,} rows that were asked for could not be had</strong>" if missing else ""


def _sources(sources: list[dict[str, Any]]) -> str:
    rows = []
    for source in sources:
        facts = {key: value for key, value in source["origin"].items() if key not in ("source", "name")}
        name = f"{source['origin'].get('source', '')} {source['origin'].get('name', '')}".strip()
        detail = ", ".join(f"{key} {value}" for key, value in facts.items() if value not in (None, {}, []))
        rows.append((name, source["domain"] or "from rows", detail, source["drawn"], source["kept"]))
    return _table(("source", "domain", "facts", "drawn", "kept"), rows)


def _counts(name: str, before: Mapping[str, int], after: Mapping[str, int]) -> str:
    return _table((name, "drawn", "kept"), [(key, count, after.get(key, 0)) for key, count in before.items()])


def _table(head: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    if not rows:
        return "<p>None.</p>"
    numeric = [isinstance(cell, int) for cell in rows[0]]
    marks = [' class="n"' if number else "" for number in numeric]
    top = "".join(f"<th{mark}>{escape(cell)}</th>" for mark, cell in zip(marks, head, strict=True))
    body = "".join(
        "<tr>" + "".join(f"<td{mark}>{_cell(cell)}</td>" for mark, cell in zip(marks, row, strict=True)) + "</tr>"
        for row in rows
    )
    return f"<table><tr>{top}</tr>{body}</table>"


def _cell(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else escape(str(value))


def _sample(sample: Mapping[str, Any]) -> str:
    rows = "".join(
        f"<tr><th>{escape(key)}</th><td><pre>{escape(str(value))}</pre></td></tr>" for key, value in sample.items()
    )
    return f"<table>{rows}</table><br>"


def _histogram(title: str, histogram: Mapping[str, Any]) -> str:
    """Draw shares, so that before and after can be compared although one has fewer rows."""
    series = [name for name in ("before", "after") if name in histogram]
    shares = {name: _shares(histogram[name]) for name in series}
    top = max((max(values, default=0) for values in shares.values()), default=0) or 1
    edges = histogram["edges"]
    slot = WIDTH / max(1, len(edges) - 1)
    bars = []
    for place, name in enumerate(series):
        width = slot * 0.8 / len(series)
        for index, share in enumerate(shares[name]):
            height = share / top * HEIGHT
            x = index * slot + slot * 0.1 + place * width
            tip = f"{edges[index]:g} to {edges[index + 1]:g}: {histogram[name][index]:,} ({share:.1%})"
            bars.append(
                f'<rect class="{name}" x="{x:.1f}" y="{HEIGHT - height:.1f}" width="{width:.1f}" '
                f'height="{height:.1f}"><title>{tip}</title></rect>'
            )
    axis = (
        f'<text x="0" y="{HEIGHT + 12}">{edges[0]:g}</text>'
        f'<text x="{WIDTH}" y="{HEIGHT + 12}" text-anchor="end">{edges[-1]:g}</text>'
    )
    return (
        f'<figure><svg viewBox="0 0 {WIDTH} {HEIGHT + MARGIN}" width="{WIDTH}" role="img">{"".join(bars)}{axis}</svg>'
        f"<figcaption>{escape(title)}</figcaption></figure>"
    )


def _shares(counts: list[int]) -> list[float]:
    total = sum(counts)
    return [count / total if total else 0.0 for count in counts]
