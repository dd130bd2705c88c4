"""Language: keeps texts of the wanted languages, by their script and their commonest function words."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Literal

from pydantic import Field

from components.contract.params import Params
from components.curation.candidate import Candidate
from components.curation.similarity.tokens import tokens

Language = Literal["ar", "de", "el", "en", "es", "fr", "he", "hi", "it", "ko", "nl", "pt", "ru", "th", "zh"]
SCRIPTS: Mapping[str, str] = {
    "ar": "ARABIC",
    "el": "GREEK",
    "he": "HEBREW",
    "hi": "DEVANAGARI",
    "ko": "HANGUL",
    "ru": "CYRILLIC",
    "th": "THAI",
    "zh": "CJK",
}
"""Languages that are told by their script alone, by the first word of its letters' Unicode names."""
LATIN = "LATIN"
COMMON: Mapping[str, str] = {
    "de": "der die und das ist nicht ein eine zu den von mit sich auf für im dem auch es des",
    "en": "the of and to in is that it for was on are as with be this by from have not",
    "es": "el la los las de que y en un una por con para es se del lo como su al",
    "fr": "le la les de des et est une un du que qui dans pour pas sur au avec ce il",
    "it": "il la di che e è un una per con non del della in le i sono si da al",
    "nl": "de het een en van is dat niet op te in zijn voor met die aan er ook als maar",
    "pt": "o a os as de que e do da em um uma para com não por é se na no",
}
"""Twenty common function words of each language in Latin script; the choice is ours."""
WORDS = {name: frozenset(words.split()) for name, words in COMMON.items()}


class LanguageConfig(Params):
    """Which languages are kept."""

    languages: tuple[Language, ...] = Field(default=("en",), min_length=1)
    """Their codes (ISO 639-1). Those not in Latin script are told by their script alone: Ukrainian passes as ru."""
    min_script_share: float = Field(default=0.8, gt=0, le=1)
    """Share of the letters in the language's script. The default is ours."""
    min_word_share: float = Field(default=0.1, ge=0, le=1)
    """Share of the words that are function words of the language, in Latin script, and no other language of those
    known may have a greater one. The default is ours: running text has about 0.3, lists and code have few."""


class LanguageFilter:
    """Rejects texts of other languages; a text without letters has none, and is kept."""

    def __init__(self, config: LanguageConfig) -> None:
        self._config = config

    def reject(self, draft: Candidate) -> str | None:
        """Return "other_language" for a text of none of the wanted languages."""
        text = draft.content
        letters = Counter(map(script, filter(str.isalpha, text)))
        least = self._config.min_script_share * letters.total()
        found = [name for name in self._config.languages if letters[SCRIPTS.get(name, LATIN)] >= least]
        if not letters or any(name in SCRIPTS for name in found):
            return None
        return None if found and self._words_agree(text, found) else "other_language"

    def keep(self, draft: Candidate) -> None:
        """Do nothing: kept rows have no effect on this check."""

    def _words_agree(self, text: str, wanted: Iterable[str]) -> bool:
        words = Counter(word for word in tokens(text) if word.isalpha())
        shares = {name: sum(words[word] for word in known) / max(1, words.total()) for name, known in WORDS.items()}
        best = max(shares[name] for name in wanted)
        return best >= self._config.min_word_share and best == max(shares.values())


@lru_cache(1 << 16)
def script(letter: str) -> str:
    """Return the first word of a letter's Unicode name, which is its script; empty for a letter without a name."""
    return unicodedata.name(letter, "").partition(" ")[0]
