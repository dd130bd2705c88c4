"""The dataset card: counts that add up, and histograms before and after curation."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from components.contract.messages import filled, read_messages, transcript
from components.curation.collect import CollectedRows, SourceTally

CARD = "card.json"
MAX_BINS = 16
RATE_BINS = 10
NUM_SAMPLES = 8
BIN_WIDTHS = (1, 2, 5)


def build_card(
    collection: CollectedRows,
    rows: Iterable[Mapping[str, Any]],
    kind: str,
    inputs: Mapping[str, Sequence[str]],
) -> dict[str, Any]:
    """Return the card of a dataset; `inputs` maps ports to the digests of their artifacts.

    drawn = kept + the sum of all drops, for every source and in total.
    """
    after = _Facts()
    for row in rows:
        after.note(row)
    drops: Counter[str] = Counter()
    for tally in collection.tallies:
        drops.update(tally.drops)
    return {
        "kind": kind,
        "num_rows": after.num_rows,
        "num_drawn": sum(tally.drawn for tally in collection.tallies),
        "num_missing": sum(tally.missing for tally in collection.tallies),
        "drops": dict(sorted(drops.items())),
        "sources": [_source_entry(tally) for tally in collection.tallies],
        "inputs": {port: list(digests) for port, digests in sorted(inputs.items())},
        "domains": {
            "before": dict(sorted(collection.domains.items())),
            "after": dict(sorted(after.domains.items())),
        },
        "qualities": dict(sorted(after.qualities.items())),
        "buckets": {str(bucket): count for bucket, count in sorted(after.buckets.items())},
        "histograms": _histograms(collection, after),
        "samples": after.samples,
    }


def write_card(folder: Path, card: Mapping[str, Any]) -> None:
    """Write card.json."""
    text = json.dumps(card, indent=1, sort_keys=True, allow_nan=False)
    (folder / CARD).write_text(text + "\n", encoding="utf-8")


class _Facts:
    """Counts over the written rows."""

    def __init__(self) -> None:
        self.num_rows = 0
        self.domains: Counter[str] = Counter()
        self.qualities: Counter[str] = Counter()
        self.buckets: Counter[int] = Counter()
        self.prompt_chars: Counter[int] = Counter()
        self.answer_chars: Counter[int] = Counter()
        self.response_chars: Counter[int] = Counter()
        self.text_chars: Counter[int] = Counter()
        self.pass_rates: list[float] = []
        self.samples: list[dict[str, Any]] = []

    def note(self, row: Mapping[str, Any]) -> None:
        """Count one row."""
        self.num_rows += 1
        self.domains[row["domain"]] += 1
        for key, lengths in (
            ("prompt", self.prompt_chars),
            ("answer", self.answer_chars),
            ("response", self.response_chars),
            ("text", self.text_chars),
        ):
            if key in row:
                lengths[sum(map(len, (*row.get("turns", ()), row[key]))) if key == "response" else len(row[key])] += 1
        if "quality" in row:
            self.qualities[row["quality"]] += 1
        if "bucket" in row:
            self.buckets[row["bucket"]] += 1
        if "pass_rate" in row:
            self.pass_rates.append(row["pass_rate"])
        if len(self.samples) < NUM_SAMPLES:
            shown = ("id", "domain", "prompt", "answer", "response", "text", "pass_rate", "quality")
            sample = {key: row[key] for key in shown if key in row}
            if "turns" in row:  # the prompt of messages is their text: it shows the turns in their places
                sample["prompt"] = transcript(filled(read_messages(row["messages"]), row["turns"]))
            self.samples.append(sample)


def _source_entry(tally: SourceTally) -> dict[str, Any]:
    return {
        "domain": tally.domain,
        "origin": tally.origin,
        "wanted": tally.wanted,
        "drawn": tally.drawn,
        "kept": tally.kept,
        "missing": tally.missing,
        "drops": dict(sorted(tally.drops.items())),
    }


def _histograms(collection: CollectedRows, after: _Facts) -> dict[str, Any]:
    pairs = {
        "prompt_chars": (collection.prompt_chars, after.prompt_chars),
        "answer_chars": (collection.answer_chars, after.answer_chars),
        "response_chars": (None, after.response_chars),
        "text_chars": (None, after.text_chars),
    }
    found = {name: length_histogram(before, kept) for name, (before, kept) in pairs.items() if kept}
    if collection.pass_rates or after.pass_rates:
        before_rates = collection.pass_rates or after.pass_rates
        found["pass_rate"] = rate_histogram(before_rates, after.pass_rates)
    return found


def length_histogram(before: Counter[int] | None, after: Counter[int]) -> dict[str, Any]:
    """Return counts per bin of equal, round width; `edges` has one more entry than the counts.

    Bin i holds lengths from edges[i] to below edges[i + 1]. Without `before` there is only `after`.
    """
    lengths = [*after, *(before or ())]
    start, stop = min(lengths), max(lengths) + 1
    width = next(w for w in _round_widths() if stop - start // w * w <= MAX_BINS * w)
    first = start // width
    num_bins = -(-stop // width) - first

    def bins(counts: Counter[int]) -> list[int]:
        found = [0] * num_bins
        for length, count in counts.items():
            found[length // width - first] += count
        return found

    histogram = {"edges": [(first + i) * width for i in range(num_bins + 1)], "after": bins(after)}
    return histogram if before is None else {**histogram, "before": bins(before)}


def rate_histogram(before: Sequence[float], after: Sequence[float]) -> dict[str, Any]:
    """Return counts per tenth of [0, 1]; the last bin holds 1 as well."""

    def bins(rates: Sequence[float]) -> list[int]:
        counts = Counter(min(RATE_BINS - 1, int(rate * RATE_BINS + 1e-9)) for rate in rates)
        return [counts[i] for i in range(RATE_BINS)]

    return {"edges": [i / RATE_BINS for i in range(RATE_BINS + 1)], "before": bins(before), "after": bins(after)}


def _round_widths() -> Iterable[int]:
    scale = 1
    while True:
        yield from (width * scale for width in BIN_WIDTHS)
        scale *= 10
