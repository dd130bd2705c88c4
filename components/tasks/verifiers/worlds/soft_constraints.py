"""The gold score of a word under constraints: the share that it keeps."""

from __future__ import annotations

from components.contract.params import Params
from components.tasks.answers import extract_answer
from components.tasks.domains.worlds.chained_words import ALPHABET, num_held, values_of
from components.tasks.item import Item
from components.tasks.verify import RIGHT, BrokenItem, Verdict, wrong


class SoftConstraintsVerifierConfig(Params):
    """No settings."""


def soft_constraints(item: Item, response: str, *, config: SoftConstraintsVerifierConfig) -> Verdict:
    """Score the constraints kept over the letters given, or over those of the word if it has more; RIGHT with all."""
    given, letters = item.data.get("given"), item.data.get("letters")
    if not (type(letters) is int and 2 <= letters <= len(ALPHABET)):
        raise BrokenItem(f"data.letters is no number from 2 to {len(ALPHABET)}: {letters!r:.80}")
    if not (isinstance(given, str) and given and values_of(given, letters) is not None):
        raise BrokenItem(f"data.given is no word of the first {letters} letters: {given!r:.80}")
    word = extract_answer(response)
    kept = num_held(given, word, letters)
    score = kept / max(len(given), len(word))
    return RIGHT if score == 1 else wrong(f"{kept} of {len(given)} constraints, {len(word)} letters", graded=score)
