"""Token counts of a dataset's rows, for its card: by a model's tokenizer, or words where there is none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from components.modeling.models.folder import load_tokenizer

FIELDS = ("prompt", "turns", "response", "text")
"""What of a row is counted; special tokens, roles and reference answers are not."""
ROWS_AT_ONCE = 512


class TokenCount:
    """Counts rows while they pass; a word is what white space parts."""

    def __init__(self, model: Path | None) -> None:
        self._tokenizer = load_tokenizer(model) if model else None
        self._counts: Counter[str] = Counter()

    @property
    def unit(self) -> str:
        """Return what is counted: tokens or words."""
        return "tokens" if self._tokenizer else "words"

    @property
    def total(self) -> int:
        """Return the number counted so far."""
        return self._counts.total()

    def entry(self) -> dict[str, Any]:
        """Return what the card says."""
        return {"unit": self.unit, "total": self.total, "domains": dict(sorted(self._counts.items()))}

    def passing(self, rows: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
        """Yield the rows, each counted."""
        domains: list[str] = []
        texts: list[str] = []
        for row in rows:
            yield row
            domains.append(row["domain"])
            texts.append("\n".join(_texts(row)))
            if len(texts) == ROWS_AT_ONCE:
                self._add(domains, texts)
                domains, texts = [], []
        self._add(domains, texts)

    def _add(self, domains: list[str], texts: list[str]) -> None:
        if self._tokenizer and texts:
            lengths = map(len, self._tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"])
        else:
            lengths = (len(text.split()) for text in texts)
        for domain, length in zip(domains, lengths, strict=True):
            self._counts[domain] += length


def _texts(row: Mapping[str, Any]) -> Iterator[str]:
    for field in FIELDS:
        if field in row:
            yield from row[field] if field == "turns" else (row[field],)
