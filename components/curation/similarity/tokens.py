"""Words and punctuation marks of a text, as curation compares texts."""

from __future__ import annotations

import re
import unicodedata

TOKEN = re.compile(r"\w+|[^\w\s]")


def tokens(text: str) -> list[str]:
    """Return words and punctuation marks of a text, case-folded, in Unicode form NFKC."""
    return TOKEN.findall(unicodedata.normalize("NFKC", text).casefold())
