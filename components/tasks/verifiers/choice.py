"""Multiple choice: the letter of an option, or the option's text."""

from __future__ import annotations

import re
import unicodedata

from components.tasks.answer_marks import bare_answer
from components.tasks.answers import AnswerConfig, extract_answer
from components.tasks.item import Item
from components.tasks.mathematics import letter_of
from components.tasks.verifiers.exact import ExactConfig, normalise
from components.tasks.verify import RIGHT, BrokenItem, Verdict, wrong

LETTER = re.compile(
    r"(?:(?:the )?(?:correct )?(?:answer|option|choice)(?: is)?:? ?)?[(\[]?([a-z])[)\].:]*(?:\s.*)?", re.S
)
OWN_MARK = re.compile(r"[(\[]?[a-z](?:[)\].:]| [-\u2013\u2014] |\s*\n)")
REJECTED = re.compile(
    r"[)\]}*.]{0,6}\s{0,3}(?:\b(?:is|was|are)(?:\s{1,3}also)?\s{1,3}(?:wrong|incorrect|not|false)\b|\bisn't\b)",
    re.IGNORECASE,
)
BEFORE = r"[\s:=*$]{0,12}(?:\\(?:text|textbf|mathrm|mathbf|boxed)\{){0,3}[(\[*]{0,4}"
ONE = r"(?-i:([A-Z]))(?![\w'])(?!(?<=[AI]) (?!because|since|as)[a-z])"
"""A capital letter by itself; A and I are words where one in small letters follows."""
STATED = re.compile(
    r"\b(?:(?:answer|(?:correct|right|best) (?:option|choice))\b(?:\s{1,3}(?:is|would be|should be|must be))?"
    rf"|I (?:choose|pick|select)|go with)(?:[\s:]{{0,4}}(?:option|choice|answer))?\b{BEFORE}{ONE}",
    re.IGNORECASE,
)
"""Says which option is the answer: `Final answer: B`, `I choose option (B)`."""
NAMED = re.compile(rf"\b(?:option|choice)\b{BEFORE}{ONE}", re.IGNORECASE)
ANOTHER = re.compile(
    r"[)\]}*.]{0,6}\s{0,3}(?:[,/]\s{0,3}[(\[*]{0,4}[A-Z]|(?i:\b(?:or|and)\b\s{0,3}[(\[*]{0,4}[A-Z]))(?![\w'])"
)
TEXT = ExactConfig(punctuation=False)


class ChoiceConfig(AnswerConfig):
    """Which letters there are."""

    letters: str = "ABCDEFGHIJ"
    """Letters of the options, in order; an item with options may use only as many as it has."""


def choice(item: Item, response: str, *, config: ChoiceConfig) -> Verdict:
    """Judge by the chosen option: `C`, `(c)`, `**C**`, `C. Paris`, `the answer is C`, or the text of an option alone.

    A response in sentences chooses the option that it last says is the answer, or that its last line is. Two options
    (`A or B`) are no choice, nor is one that is called wrong. `data["options"]` may list the options' texts. A response
    that names no option is WRONG; a reference that is none of the letters is a broken item.
    """
    options = item.data.get("options", [])
    letters = config.letters[: len(options)] if options else config.letters
    expected = item.answer.strip().strip("()[].").upper()
    if len(expected) != 1 or expected not in letters:
        raise BrokenItem(f"the reference {item.answer!r} is none of the options {letters}")
    text = extract_answer(response, config.unmarked)
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
    text = unicodedata.normalize("NFKC", text)
    statements = _letters(STATED, text, letters)
    if len(statements) > 1:
        return statements[-1]
    bare = bare_answer(text).text
    return _lettered(text, letters) or _lettered(bare, letters) or _in_sentences(text, letters)


def _lettered(text: str, letters: str) -> str | None:
    """Return the letter that an answer begins with or is."""
    lower = text.strip().lower()
    match = LETTER.fullmatch(lower)
    letter = match[1].upper() if match else letter_of(text)
    plain = normalise(text, TEXT)
    # "a dog" begins with an article, not with a choice: text may follow a letter only after its own mark
    if match and plain.startswith(f"{match[1]} ") and not OWN_MARK.match(lower):
        return None
    if match and (REJECTED.match(lower, match.end(1)) or ANOTHER.match(text.strip(), match.end(1))):
        return None
    return letter if letter in set(letters) else None


def _in_sentences(text: str, letters: str) -> str | None:
    """Return the letter that sentences say is the answer, that is on the last line, or that they alone name."""
    line = text.strip().rpartition("\n")[2]
    named = _letters(NAMED, text, letters)
    by_line = None if line == text.strip() else _lettered(bare_answer(line).text, letters)
    return next(iter(_letters(STATED, text, letters)), None) or by_line or (named[0] if len(set(named)) == 1 else None)


def _letters(pattern: re.Pattern[str], text: str, letters: str) -> list[str]:
    """Return the letters that a pattern finds, without those rejected or beside another letter."""
    return [
        match[1]
        for match in pattern.finditer(text)
        if match[1] in letters and not ANOTHER.match(text, match.end()) and not REJECTED.match(text, match.end())
    ]
