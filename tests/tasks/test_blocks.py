"""Tagged parts of a response: where they begin and end, in characters and in tokens."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.tasks.blocks import BROKEN, Grammar, blocks, token_ends

CLOSED, OPEN = Grammar(), Grammar(closing=False)


def found(text: str, grammar: Grammar = CLOSED) -> list[tuple[str, str]]:
    return [(block.tag, block.text) for block in blocks(text, grammar)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<think>a b</think><answer>7</answer>", [("think", "a b"), ("answer", "7")]),
        ("x <answer>1</answer> y <answer>2</answer>", [("answer", "1"), ("answer", "2")]),
        ("<think>a <answer>1</answer></think>", [("think", "a <answer>1</answer>")]),
        ("<think>never closed <answer>1</answer>", [("answer", "1")]),
        ("<answer>1", []),
        ("<note>1</note>", []),
        ("</think><think></think>", [("think", "")]),
        ("", []),
    ],
)
def test_closed_blocks(text: str, expected: list[tuple[str, str]]) -> None:
    assert found(text) == expected
    assert all(block.closed for block in blocks(text, Grammar()))


def test_open_blocks_end_at_the_next_one() -> None:
    assert found("<think>a b<answer>7", OPEN) == [("think", "a b"), ("answer", "7")]
    assert [block.closed for block in blocks("<think>a</think><answer>7", OPEN)] == [True, False]
    assert found("<think>a<answer>7</think>", OPEN) == [("think", "a"), ("answer", "7</think>")]


def test_tokens_that_hold_a_block() -> None:
    pieces = ["<think>", "4", "+", "7", "</think>", " <ans", "wer>1", "1</answer>", ""]
    text = "".join(pieces)
    assert [block.tokens for block in blocks(text, Grammar(), pieces)] == [(0, 5), (5, 8)]
    assert [text[slice(*block.inside)] for block in blocks(text, Grammar(), pieces)] == ["4+7", "11"]


def test_a_character_of_several_tokens_ends_with_the_last() -> None:
    # "a" + two bytes of "é" + "b", and a token that the text does not show
    assert token_ends("aéb", ["a", BROKEN, BROKEN, "b"]) == [1, 2, 2, 3]
    assert token_ends("ab", ["a", "<|pad|>", "b", "<|end|>"]) == [1, 1, 2, 2]
    assert token_ends("aé", ["a", BROKEN, BROKEN]) == [1, 2, 2]


WORDS = st.lists(st.sampled_from(["<think>", "</think>", "<answer>", "</answer>", "a", "4 ", "é"]), max_size=12)


@given(WORDS, st.booleans())
def test_blocks_are_slices_of_the_text_in_order(pieces: list[str], closing: bool) -> None:
    text = "".join(pieces)
    whole = blocks(text, Grammar(closing=closing), pieces)
    at = 0
    for block in whole:
        assert at <= block.start <= block.inside[0] <= block.inside[1] <= block.end <= len(text)
        assert text[slice(*block.inside)] == block.text
        assert text[block.start : block.inside[0]] == f"<{block.tag}>"
        assert text[block.inside[1] : block.end] == (f"</{block.tag}>" if block.closed else "")
        assert block.tokens is not None
        first, last = block.tokens
        assert "".join(pieces[first:last]) == text[block.start : block.end]
        at = block.end
