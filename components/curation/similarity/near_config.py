"""NearConfig: when two texts are near duplicates."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from components.contract.params import Params
from components.curation.switch import SWITCH


class NearConfig(Params):
    """When two texts are near duplicates: Jaccard similarity of their shingles."""

    threshold: float = Field(default=0.8, gt=0, le=1)
    """Similarity from which a row is a near duplicate."""
    ngram: int = Field(default=5, ge=1)
    """Words or characters in a shingle; a shorter text is one shingle."""
    unit: Literal["word", "character"] = "word"
    """What shingles are made of; for short prompts made from one template, characters distinguish better."""
    permutations: int = Field(default=128, ge=16)
    """Longest MinHash signature: as much of it is used as finds 99.9 % of the pairs at the threshold."""


NearSwitch = Annotated[NearConfig | None, SWITCH]
