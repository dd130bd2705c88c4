"""Gopher's rules for texts of the web (Rae et al. 2021, arXiv 2112.11446, appendix A.1.1 and table A1).

The paper does not say what a word is: here, what white space parts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from pydantic import Field

from components.contract.params import Params

STOP_WORDS = frozenset({"the", "be", "to", "of", "and", "that", "have", "with"})
BULLETS = ("\u2022", "-")
"""The paper says bullet point; datatrove takes the hyphen for one too."""
ELLIPSES = ("...", "\u2026")
TOP_NGRAMS: Mapping[int, float] = {2: 0.20, 3: 0.18, 4: 0.16}
"""Largest share of the characters in the commonest n-gram (table A1)."""
REPEATED_NGRAMS: Mapping[int, float] = {5: 0.15, 6: 0.14, 7: 0.13, 8: 0.12, 9: 0.11, 10: 0.10}
"""Largest share of the characters in n-grams that came before (table A1)."""
PARAGRAPHS, LINES = re.compile(r"\n{2,}"), re.compile(r"\n+")
EDGES = re.compile(r"^\W+|\W+$")


class GopherConfig(Params):
    """Bounds of Gopher's rules for quality; the defaults are the paper's."""

    min_words: int = Field(default=50, ge=0)
    """Fewest words; those of symbols alone do not count."""
    max_words: int = Field(default=100_000, ge=1)
    """Most words."""
    word_length: tuple[float, float] = (3.0, 10.0)
    """Smallest and largest mean length of a word."""
    max_symbols: float = Field(default=0.1, ge=0)
    """Most hash signs for each word, and most ellipses."""
    max_bullets: float = Field(default=0.9, ge=0, le=1)
    """Largest share of lines that begin with a bullet point."""
    max_ellipses: float = Field(default=0.3, ge=0, le=1)
    """Largest share of lines that end with an ellipsis."""
    min_letters: float = Field(default=0.8, ge=0, le=1)
    """Smallest share of words with a letter."""
    min_stop_words: int = Field(default=2, ge=0)
    """How many of the, be, to, of, and, that, have and with must be there; 0 for languages other than English."""


class RepetitionConfig(Params):
    """Bounds of Gopher's rules against repetition; the defaults are the paper's, and so are those of n-grams."""

    max_lines: float = Field(default=0.30, ge=0, le=1)
    """Largest share of lines that came before, and of such paragraphs."""
    max_characters: float = Field(default=0.20, ge=0, le=1)
    """Largest share of the characters in lines that came before, and in such paragraphs."""
    ngrams: bool = True
    """Also bound the characters in the commonest 2- to 4-gram, and in 5- to 10-grams that came before."""


def gopher_reason(text: str, config: GopherConfig) -> str | None:
    """Return the rule for quality that a text breaks, if any."""
    parts = text.split()
    words = [part for part in parts if any(map(str.isalnum, part))]
    if len(words) < max(1, config.min_words):
        return "gopher_short"
    if len(words) > config.max_words:
        return "gopher_long"
    if not config.word_length[0] <= sum(map(len, words)) / len(words) <= config.word_length[1]:
        return "gopher_word_length"
    if max(text.count("#"), sum(map(text.count, ELLIPSES))) > config.max_symbols * len(parts):
        return "gopher_symbols"
    lines = text.splitlines()
    if sum(line.lstrip().startswith(BULLETS) for line in lines) > config.max_bullets * len(lines):
        return "gopher_bullets"
    if sum(line.rstrip().endswith(ELLIPSES) for line in lines) > config.max_ellipses * len(lines):
        return "gopher_ellipses"
    if sum(any(map(str.isalpha, part)) for part in parts) < config.min_letters * len(parts):
        return "gopher_letters"
    if config.min_stop_words and len(_bare(words) & STOP_WORDS) < config.min_stop_words:
        return "gopher_stop_words"
    return None


def _bare(words: Sequence[str]) -> set[str]:
    """Return the distinct words in small letters, without marks around them."""
    return {EDGES.sub("", word.casefold()) for word in set(words)}


def repetition_reason(text: str, config: RepetitionConfig) -> str | None:
    """Return the rule against repetition that a text breaks, if any."""
    size = len(text)
    for parts, reason in (
        (PARAGRAPHS.split(text.strip()), "repeated_paragraphs"),
        (LINES.split(text), "repeated_lines"),
    ):
        again, characters = _repeated(parts)
        if again > config.max_lines * len(parts) or characters > config.max_characters * size:
            return reason
    if config.ngrams and _repeats_ngrams(text.split(), size):
        return "repeated_ngrams"
    return None


def _repeated(parts: Sequence[str]) -> tuple[int, int]:
    """Return how many parts came before, and their characters."""
    seen: set[str] = set()
    again = characters = 0
    for part in parts:
        if part in seen:
            again += 1
            characters += len(part)
        seen.add(part)
    return again, characters


def _repeats_ngrams(words: Sequence[str], size: int) -> bool:
    for length, most in TOP_NGRAMS.items():
        counts = Counter(zip(*(words[start:] for start in range(length)), strict=False))
        if counts:
            ngram, count = counts.most_common(1)[0]
            if (sum(map(len, ngram)) + length - 1) * count > most * size:
                return True
    return any(_again(words, length) > most * size for length, most in REPEATED_NGRAMS.items())


def _again(words: Sequence[str], length: int) -> int:
    """Return the characters of words in n-grams that came before; a counted n-gram is passed over whole."""
    seen: set[tuple[str, ...]] = set()
    ngrams = list(zip(*(words[start:] for start in range(length)), strict=False))
    characters = place = 0
    while place < len(ngrams):
        if ngrams[place] in seen:
            characters += sum(map(len, ngrams[place]))
            place += length
        else:
            seen.add(ngrams[place])
            place += 1
    return characters
