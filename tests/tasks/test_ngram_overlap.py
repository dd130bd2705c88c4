"""Sentence BLEU: by hand, and against a count of every n-gram by search, in exact fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from components.tasks.ngram_overlap import Overlap, sentence_bleu


@pytest.mark.parametrize(
    ("text", "reference", "expected"),
    [
        ("a b c d", "a b c d", 1.0),
        ("a b c d", "a b c e", (3 / 4 * 2 / 3 * 1 / 2 * 1 / 2) ** 0.25),  # no 4-gram matches: 1 / (2 * 1)
        ("a b", "a b", 1.0),  # there are no 3-grams to count
        ("a b", "a b c d", math.exp(1 - 4 / 2)),
        ("a a a", "a", (1 / 3 * 1 / 4 * 1 / 4) ** (1 / 3)),  # clipped; then 1 / (2 * 2) and 1 / (4 * 1)
        ("b a", "a b", (1 * 1 / 2) ** 0.5),
        ("x y", "a b", 0.0),
        ("", "a b", 0.0),
        ("a", "", 0.0),
    ],
)
def test_by_hand(text: str, reference: str, expected: float) -> None:
    assert sentence_bleu(text.split(), reference.split(), 4) == pytest.approx(expected)


def matches(given: str, reference: str, n: int) -> int:
    """Pair n-grams off one by one."""
    left = [reference[at : at + n] for at in range(len(reference) - n + 1)]
    count = 0
    for at in range(len(given) - n + 1):
        if given[at : at + n] in left:
            left.remove(given[at : at + n])
            count += 1
    return count


def plain(given: str, reference: str, longest: int) -> float:
    """Compute it with a product of fractions and one root at the end."""
    product, order, smooth = Fraction(1), 0, 1
    for n in range(1, longest + 1):
        total = len(given) - n + 1
        if total < 1:
            break
        order += 1
        found = matches(given, reference, n)
        if not found:
            smooth *= 2
        product *= Fraction(found, total) if found else Fraction(1, smooth * total)
    if not order or not matches(given, reference, 1):
        return 0.0
    short = len(given) < len(reference)
    return float(product) ** (1 / order) * (math.exp(1 - len(reference) / len(given)) if short else 1.0)


LETTERS = st.text("abc", max_size=9)


@given(LETTERS, LETTERS, st.integers(1, 5))
def test_agrees_with_a_search_in_fractions(text: str, reference: str, longest: int) -> None:
    found = sentence_bleu(text, reference, longest)
    assert found == pytest.approx(plain(text, reference, longest), abs=1e-12)
    assert 0 <= found <= 1
    assert Overlap(longest=longest, unit="characters").of(" ".join(text), reference) == found


@given(st.text("ab", min_size=1, max_size=9))
def test_a_text_is_its_own_best_rendering(text: str) -> None:
    assert sentence_bleu(text, text, 4) == 1.0


def test_words_are_what_white_space_separates() -> None:
    assert Overlap().of("b7  then\nk2.", "b7 then k2.") == 1.0
    assert Overlap(longest=1).of("k2. b7", "b7 then k2.") == pytest.approx(math.exp(1 - 3 / 2))


@pytest.mark.parametrize("config", [{"longest": 0}, {"longest": 21}, {"unit": "bytes"}])
def test_bad_settings_are_refused(config: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Overlap.model_validate(config)
