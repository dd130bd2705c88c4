"""Multiple choice: the letter of an option, or the option's text."""

from __future__ import annotations

import re

from components.contract.params import Params
from components.tasks.answers import extract_answer
from components.tasks.item import Item
from components.tasks.verifiers.exact import ExactConfig, normalise
from components.tasks.verify import RIGHT, BrokenItem, Verdict, wrong

LETTER = re.compile(
    r"(?:(?:the )?(?:correct )?(?:answer|option|choice)(?: is)?:? ?)?[(\[]?([a-z])[)\].:]*(?:\s.*)?", re.S
)
TEXT = ExactConfig(punctuation=False)


class ChoiceConfig(Params):
    """Which letters there are."""

    letters: str = "ABCDEFGHIJ"
    """Letters of the options, in order; an item with options may use only as many as it has."""


def choice(item: Item, response: str, *, config: ChoiceConfig) -> Verdict:
    """Judge by the chosen option: `C`, `(c)`, `C. Paris`, `the answer is C`, or the text of an option alone.

    `data["options"]` may list the options' texts. A response that names no option is WRONG; a reference that is
    none of the letters is a broken item.
    """
    options = item.data.get("options", [])
    letters = config.letters[: len(options)] if options else config.letters
    expected = item.answer.strip().strip("()[].").upper()
    if len(expected) != 1 or expected not in letters:
        raise BrokenItem(f"the reference {item.answer!r} is none of the options {letters}")
    text = extract_answer(response)
    given = _chosen(text, [str(option) for option in options], letters)
    return RIGHT if given == expected else wrong(f"chose {given or 'no option'}: {text[:80]!r}")


def chosen_option(response: str, options: list[str], letters: str = ChoiceConfig().letters) -> str | None:
    """Return the text of the option that a response chooses; None if it names none."""
    given = _chosen(extract_answer(response), options, letters[: len(options)])
    return None if given is None else options[letters.index(given)]


def _chosen(text: str, options: list[str], letters: str) -> str | None:
    plain = normalise(text, TEXT)
    texts = [normalise(option, TEXT) for option in options]
    if plain in texts and texts.count(plain) == 1:
        return letters[texts.index(plain)]
    match = LETTER.fullmatch(text.strip().lower())
    letter = match[1].upper() if match else None
    # "a dog" begins with an article, not with a choice: text may follow a letter only after a mark
    if letter and len(plain) > 1 and plain.startswith(f"{letter.lower()} ") and not re.search(r"[.):\]]", text):
        return None
    return letter if letter in set(letters) else None
