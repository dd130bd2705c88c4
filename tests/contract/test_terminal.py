"""Hostile texts on a terminal: nothing invisible is left, and what was there can still be read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.contract.terminal import print_error, short_line, visible, visible_line


@given(st.text())
def test_nothing_invisible_is_left_and_what_is_visible_stays(text: str) -> None:
    shown = visible(text)
    assert all(char.isprintable() or char in "\n\t" for char in shown)
    shown.encode()
    if all(char.isprintable() or char in "\n\t" for char in text):
        assert shown == text


@pytest.mark.parametrize(
    "text, shown",
    [
        ("\x1b[31mred\x1b]0;title\x07", "\\x1b[31mred\\x1b]0;title\\x07"),
        ("a\rb\x9b1m", "a\\rb\\x9b1m"),
        ("abc\u202egnp.exe", "abc\\u202egnp.exe"),
        ("zero\u200bwidth\u2066", "zero\\u200bwidth\\u2066"),
        ("\ud800", "\\ud800"),
        ("two\nlines\tß 数", "two\nlines\tß 数"),
    ],
)
def test_marks_that_mislead_are_spelled_out(text: str, shown: str) -> None:
    assert visible(text) == shown


@given(st.text())
def test_one_line_is_one_line(text: str) -> None:
    assert visible_line(text).isprintable()
    assert short_line(text, 20).isprintable() and len(short_line(text, 20)) <= 23


def test_a_line_spells_its_ends_and_a_short_one_joins_them() -> None:
    assert visible_line("a\tb\nc\x1b[2J") == "a\\tb\\nc\\x1b[2J"
    assert short_line("  two\n words\x07 ", 40) == "two words\\x07"
    assert short_line("123456", 5) == "12345..."


def test_an_error_clears_no_screen(capsys: pytest.CaptureFixture[str]) -> None:
    print_error(ValueError("row 3: \x1b[2J\u202e\nsecond"))
    assert capsys.readouterr().err == "posttrain: row 3: \\x1b[2J\\u202e\nsecond\n"
