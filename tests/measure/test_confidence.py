"""Stated confidence: what is read, what is counted as missing or outside, and hostile texts."""

from __future__ import annotations

import pytest

from components.measure.confidence import Stated, stated_confidence


@pytest.mark.parametrize(
    ("text", "scale", "value"),
    [
        ("<answer>7</answer><conf>0.7</conf>", 1, 0.7),
        ("<answer>7<conf>7", 10, 0.7),
        ("<conf> 70 % </conf>", 1, 0.7),
        ("<conf>70%", 10, 0.7),
        ("<conf>0.2</conf> no: <conf>.9\nsure", 1, 0.9),
        ("<conf>0", 10, 0.0),
        ("<conf>1", 1, 1.0),
    ],
)
def test_what_is_read(text: str, scale: float, value: float) -> None:
    found = stated_confidence(text, scale=scale)
    assert found.stated is Stated.GIVEN and found.value == pytest.approx(value)


@pytest.mark.parametrize("text", ["", "0.7", "<conf>", "<conf>high", "<conf>0.7 or 0.8", "<conf>__import__('os')"])
@pytest.mark.parametrize("tag", ["conf"])
def test_what_is_no_confidence_is_missing(text: str, tag: str) -> None:
    assert stated_confidence(text, tag=tag).stated is Stated.MISSING


@pytest.mark.parametrize("text", ["<conf>1.01", "<conf>-0.1", "<conf>101%", "<conf>+2", "<conf>" + "9" * 12])
def test_a_number_outside_is_told_from_none(text: str) -> None:
    found = stated_confidence(text)
    assert (found.stated, found.value) == (Stated.OUTSIDE, None)


@pytest.mark.parametrize(
    "text", ["<conf>nan", "<conf>inf", "<conf>1e-1", "<conf>" + "9" * 5000, "<conf>٧", "<conf>" * 10_000]
)
def test_hostile_numbers_are_none(text: str) -> None:
    assert stated_confidence(text).value is None
