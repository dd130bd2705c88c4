"""Decontamination: drops rows that leak prompts of evaluation sets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from components.contract.errors import InputError
from components.contract.params import Params
from components.curation.candidate import Candidate
from components.curation.operators.dedup import normalised
from components.curation.similarity.near_config import NearConfig, NearSwitch
from components.curation.similarity.tokens import tokens
from components.curation.switch import SWITCH
from components.tasks.rows import iter_rows

if TYPE_CHECKING:
    from components.curation.similarity.neighbours import NeighbourIndex
    from components.curation.similarity.shingles import Hashes

MIN_CONTAINED_TOKENS = 4
"""Shorter evaluation prompts occur in any text by chance."""
MIN_BOILERPLATE_PROMPTS = 20
"""With fewer evaluation prompts, shared n-grams are not treated as template text."""


class NgramConfig(Params):
    """Overlap of word n-grams with evaluation prompts (Brown et al. 2020, appendix C)."""

    size: int = Field(default=13, ge=2)
    """Words and punctuation marks in an n-gram; shorter prompts are compared only exactly."""
    min_share: float = Field(default=0.0, ge=0, le=1)
    """Share of the row's n-grams that must be found in evaluation prompts; at 0 a single one is enough."""
    boilerplate_share: float = Field(default=0.05, gt=0, le=1)
    """N-grams in more than this share of all evaluation prompts are template text and do not count."""


class DecontaminateConfig(Params):
    """What counts as a leak of an evaluation prompt."""

    exact: bool = True
    """The same prompt; in plain text, the prompt anywhere in it; in messages, as one of the user's."""
    ngrams: Annotated[NgramConfig | None, SWITCH] = None
    """Shared word n-grams."""
    near: NearSwitch = None
    """Near duplicates by MinHash."""


class Contamination:
    """Rejects rows that leak a prompt of the evaluation sets."""

    def __init__(self, prompts: Iterable[str], config: DecontaminateConfig) -> None:
        self._config = config
        distinct = sorted({normalised(prompt) for prompt in prompts})
        self._prompts = set(distinct) if config.exact else set()
        self._by_length = _by_length(distinct) if config.exact else {}
        self._ngrams = _telling_ngrams(distinct, config.ngrams) if config.ngrams else None
        self._index = _index_of(distinct, config.near) if config.near else None

    def reject(self, draft: Candidate) -> str | None:
        """Return "contaminated" for a row that leaks an evaluation prompt."""
        content = draft.content
        leaks = (
            not self._prompts.isdisjoint(map(normalised, (content, *draft.questions)))
            or (draft.text is not None and self._contains_prompt(content))
            or self._shares_ngrams(content)
            or (self._index is not None and self._index.near(self._index.sketch(content)))
        )
        return "contaminated" if leaks else None

    def keep(self, draft: Candidate) -> None:
        """Do nothing: kept rows have no effect on this check."""

    def _contains_prompt(self, text: str) -> bool:
        words = tokens(text)
        return any(
            tuple(words[start : start + length]) in prompts
            for length, prompts in self._by_length.items()
            for start in range(len(words) - length + 1)
        )

    def _shares_ngrams(self, text: str) -> bool:
        if not (ngrams := self._config.ngrams) or self._ngrams is None or not len(self._ngrams):
            return False
        from components.curation.similarity.shingles import count_shared, shingles

        own = shingles(text, ngram=ngrams.size, unit="word")
        shared = count_shared(own, self._ngrams)
        return shared > 0 and shared >= ngrams.min_share * len(own)


def evaluation_prompts(folders: Iterable[Path]) -> Iterator[str]:
    """Yield the prompts (or texts) of evaluation datasets; raise InputError with file and line for a row without."""
    for folder in folders:
        for where, row in iter_rows(folder):
            content = row.get("prompt", row.get("text"))
            if not isinstance(content, str):
                raise InputError(f"{where}: a row of an evaluation set without prompt and without text")
            yield content


def _by_length(prompts: list[str]) -> dict[int, set[tuple[str, ...]]]:
    found: dict[int, set[tuple[str, ...]]] = {}
    for prompt in prompts:
        words = tuple(tokens(prompt))
        if len(words) >= MIN_CONTAINED_TOKENS:
            found.setdefault(len(words), set()).add(words)
    return found


def _telling_ngrams(prompts: list[str], config: NgramConfig) -> Hashes:
    """Return the full-size n-grams of the prompts, without template text, in rising order."""
    import numpy as np

    from components.curation.similarity.shingles import shingles

    long = [prompt for prompt in prompts if len(tokens(prompt)) >= config.size]
    each = [shingles(prompt, ngram=config.size, unit="word") for prompt in long]
    found, counts = np.unique(np.concatenate([np.zeros(0, np.uint64), *each]), return_counts=True)
    if len(prompts) < MIN_BOILERPLATE_PROMPTS:
        return found
    return found[counts <= config.boilerplate_share * len(prompts)]


def _index_of(prompts: list[str], config: NearConfig) -> NeighbourIndex:
    from components.curation.similarity.neighbours import NeighbourIndex

    index = NeighbourIndex(config)
    for prompt in prompts:
        index.add(index.sketch(prompt))
    return index
