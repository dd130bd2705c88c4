"""Options of multiple choice in another order: the prompt written again, and which letter means what."""

from __future__ import annotations

import re
from collections.abc import Sequence

from components.tasks.answers import ANSWER_OPEN
from components.tasks.item import Item
from components.tasks.verify import verify

LETTERS = "ABCDEFGHIJ"
OPTIONS = "options"
"""Key of an item's data: the texts of its options, in the order of their letters."""
ALONE = re.compile(r"(?<![A-Za-z0-9])([A-J])(?![A-Za-z0-9'])(?! [a-z])")
"""A letter by itself; not an article or a pronoun, which a word in small letters follows."""


def reordered(item: Item, order: Sequence[int]) -> Item | None:
    """Return the item with its options in another order: place j shows option `order[j]`.

    None where the prompt does not show each option behind its letter (`A:11`, `(B) nine`), or lists none.
    """
    options = item.data.get(OPTIONS)
    if item.messages or not (isinstance(options, list) and len(options) == len(order) <= len(LETTERS)):
        return None
    texts, pieces, end = [str(option) for option in options], [], 0
    for letter, text in zip(LETTERS, texts, strict=False):
        found = re.compile(rf"(?<![A-Za-z0-9])\(?{letter}[).:\]]\s*{re.escape(text)}(?!\w)").search(item.prompt, end)
        if found is None:
            return None
        pieces.append(item.prompt[end : found.end() - len(text)])
        end = found.end()
    prompt = "".join(piece + texts[option] for piece, option in zip(pieces, order, strict=True)) + item.prompt[end:]
    right = LETTERS.find(item.answer.strip().strip("()[].").upper())
    if not 0 <= right < len(texts):
        return None
    data = {**item.data, OPTIONS: [options[option] for option in order]}
    return item.model_copy(update={"prompt": prompt, "answer": LETTERS[list(order).index(right)], "data": data})


def chosen_option(item: Item, response: str) -> int | None:
    """Return the place of the option that a response chooses, by the item's own verifier; None if it chooses none."""
    for place, letter in enumerate(LETTERS[: len(item.data[OPTIONS])]):
        if verify(item.model_copy(update={"answer": letter}), response).right:
            return place
    return None


def same_thought(response: str, order: Sequence[int]) -> str:
    """Return what a response writes before the mark of its answer, for options in another order.

    Letters that name an option are mapped; a response without the mark has no thought. The mark itself is left to be
    written again: it may be one token with what follows it.
    """
    thought = response.rpartition(ANSWER_OPEN)[0]
    places = {LETTERS[option]: LETTERS[place] for place, option in enumerate(order)}
    return ALONE.sub(lambda found: places.get(found[1], found[1]), thought)
