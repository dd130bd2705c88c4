"""Source dialects by hand and by regular expression: labels, spellings, the writer and the judge."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.contract.errors import InputError
from components.contract.operators import OperatorRefused
from components.tasks.domains.worlds.dialects import COMMON, LETTERS, RARE, fidelity, is_member, plain
from components.tasks.item import Item
from components.tasks.verify import verify
from tests.tasks.test_worlds import items, write

TO_PLAIN = str.maketrans(COMMON + RARE, LETTERS * 2)


@pytest.mark.parametrize(
    ("word", "member"), [("ac", True), ("fbde", True), ("abcd", True), ("ca", False), ("aecb", False), ("", False)]
)
def test_membership_by_hand(word: str, member: bool) -> None:
    assert is_member(word) is member


@given(st.text(LETTERS, max_size=9))
def test_membership_is_that_of_the_regular_expression(word: str) -> None:
    assert is_member(word) is bool(re.fullmatch(".*[ab][cd].*", word))


@settings(max_examples=20)
@given(seed=st.integers(0, 1 << 40))
def test_words_of_the_dialect_are_members_as_their_plain_words(seed: int) -> None:
    for item in items({"name": "dialects", "speech": "dialect"}, 5, seed):
        assert plain(item.prompt) == item.prompt.translate(TO_PLAIN) == item.data["word"]
        assert item.answer == ("y" if is_member(item.data["word"]) else "n")
        assert verify(item, f"<answer>{item.answer}").right
        assert not verify(item, "<answer>yn").right


def test_shares_of_classes_and_spellings() -> None:
    found = items({"name": "dialects", "speech": "dialect", "rare": 0.2}, 800)
    letters = "".join(item.prompt for item in found)
    assert abs(sum(item.answer == "y" for item in found) / 800 - 0.5) < 0.06
    assert abs(sum(sign in RARE for sign in letters) / len(letters) - 0.2) < 0.03
    assert {len(item.prompt) for item in found} == {4, 5, 6}


def test_parts_share_no_word_whatever_its_spelling() -> None:
    held = {item.data["word"] for item in items({"name": "dialects", "part": [0, 0.2]}, 300)}
    for more in ({"speech": "dialect"}, {"ask": "rewrite"}):
        trained = {item.data["word"] for item in items({"name": "dialects", "part": [0.2, 1], **more}, 300)}
        assert held and trained and not held & trained
    assert items({"name": "dialects"}, 9, 1) == items({"name": "dialects"}, 9, 1) != items({"name": "dialects"}, 9, 2)


def test_the_writer_spells_and_errs_as_often_as_told() -> None:
    (item,) = items({"name": "dialects", "ask": "rewrite"}, 1)
    assert item.prompt == f"say {item.data['word']}"
    assert write(item, name="dialect_writer", rare=0) == f"<answer>{item.answer}"
    assert set(write(item, name="dialect_writer", rare=1).removeprefix("<answer>")) <= set(RARE)
    word = item.data["word"]
    texts = [write(item, seed, name="dialect_writer", letter_error_rate=0.3)[8:] for seed in range(800)]
    errors = sum(one != other for text in texts for one, other in zip(plain(text) or "", word, strict=True))
    assert abs(errors / (800 * len(word)) - 0.3) < 0.04


@pytest.mark.parametrize(
    ("text", "rating"),
    [("moqn", 5), ("suwt", 5), ("moqr", 4), ("mosr", 3), ("rorr", 1), ("moq", 1), ("aceb", 1), ("", 1)],
)
def test_ratings_of_rewrites_of_aceb_by_hand(text: str, rating: int) -> None:
    assert fidelity("aceb", text) == rating  # mosr is acaf: two letters differ; rorr is fcff, no member


@given(st.text(max_size=12))
def test_any_text_has_a_rating(text: str) -> None:
    assert 1 <= fidelity("abcdef", text) <= 5
    assert plain(text) is None or set(text) <= set(COMMON + RARE)


def test_the_judge_says_the_rating_and_errs_by_chance() -> None:
    (item,) = items({"name": "dialects"}, 1)
    word = item.data["word"]
    due = word.translate(str.maketrans(LETTERS, COMMON))
    asked = item.model_copy(update={"data": {"word": word, "response": f"<answer>{due}"}})
    assert write(asked, name="dialect_judge") == "<answer>5"
    told = [write(asked, seed, name="dialect_judge", error_rate=1.0) for seed in range(300)]
    assert {text.removeprefix("<answer>") for text in told} == set("12345")


def test_items_of_other_sources_are_refused_in_a_line() -> None:
    other = Item(id="x", domain="d", prompt="p", answer="a", verifier="exact")
    for name in ("dialect_writer", "dialect_judge"):
        with pytest.raises(
            InputError, match=f"demonstrator {name}: .* of source dialects|of a word of source dialects"
        ):
            write(other, name=name)
    with pytest.raises(OperatorRefused, match="plain words are rewritten"):
        items({"name": "dialects", "ask": "rewrite", "speech": "dialect"}, 1)
    with pytest.raises(OperatorRefused, match="min_length 8 is above max_length 6"):
        items({"name": "dialects", "min_length": 8}, 1)
