"""Whether a response has the right length, in words."""

from __future__ import annotations

from pydantic import Field, model_validator

from components.contract.params import Params
from components.tasks.answers import extract_answer
from components.tasks.item import Item
from components.tasks.verify import RIGHT, Verdict, wrong


class WordCountConfig(Params):
    """The band of right lengths, and what falls off beside it."""

    least: int = Field(default=0, ge=0)
    """Fewest words."""
    most: int = Field(default=200, ge=0)
    """Most words."""
    margin: int = Field(default=0, ge=0)
    """Words beside the band within which the score falls from 1 to 0; 0: it falls at once."""
    whole: bool = False
    """Whether the thought counts, too; else the final answer alone."""

    @model_validator(mode="after")
    def _band(self) -> WordCountConfig:
        if self.least > self.most:
            raise ValueError(f"least {self.least} is above most {self.most}")
        return self


def word_count(item: Item, response: str, *, config: WordCountConfig) -> Verdict:
    """Judge by the number of words, separated by white space."""
    words = len((response if config.whole else extract_answer(response)).split())
    beside = max(config.least - words, words - config.most, 0)
    if not beside:
        return RIGHT
    score = max(0.0, 1 - beside / (config.margin + 1)) if config.margin else 0.0
    return wrong(f"{words} words, outside {config.least} to {config.most}", graded=score)
