"""C4's rules for pages of the web (Raffel et al. 2020, JMLR 21:140, section 2.2), without its list of bad words.

C4 cuts lines out of pages. Here a text is kept whole or dropped: lines that C4 would cut do not count as sentences.
Bounds are those of C4's released code, as datatrove's C4QualityFilter takes them over.
"""

from __future__ import annotations

import re

from pydantic import Field

from components.contract.params import Params

END_MARKS = (".", "?", "!", '"', "'")
ELLIPSIS = "..."
POLICY = ("terms of use", "privacy policy", "cookie policy", "uses cookies", "use of cookies", "use cookies")
MAX_WORD_LENGTH = 1000
CITATION = re.compile(r"\[\d*\]|\[edit\]|\[citation needed\]")
SENTENCE_END = re.compile(r"[.?!]+[\"')\]]*(?=\s|$)")


class C4Config(Params):
    """Bounds of C4's rules; the defaults are its released code's."""

    min_sentences: int = Field(default=5, ge=0)
    """Fewest sentences in lines that C4 would keep."""
    min_line_words: int = Field(default=3, ge=0)
    """Fewest words of such a line."""
    brackets: bool = False
    """Keep texts with a curly bracket; C4 drops them, and with them all code."""


def c4_reason(text: str, config: C4Config) -> str | None:
    """Return the rule that a text breaks, if any."""
    if "lorem ipsum" in text.lower():
        return "c4_lorem_ipsum"
    if "{" in text and not config.brackets:
        return "c4_curly_bracket"
    found = sum(_sentences(line, config.min_line_words) for line in text.splitlines())
    return "c4_few_sentences" if found < config.min_sentences else None


def _sentences(line: str, min_words: int) -> int:
    """Return the sentences of a line, by the marks that end them; 0 for a line that C4 would cut."""
    line = CITATION.sub("", line.strip())
    words, small = line.split(), line.lower()
    if len(words) < min_words or not line.endswith(END_MARKS) or line.endswith(ELLIPSIS):
        return 0
    if "javascript" in small or any(phrase in small for phrase in POLICY) or len(max(words, key=len)) > MAX_WORD_LENGTH:
        return 0
    return max(1, len(SENTENCE_END.findall(line)))
