"""Text contrast of the report's style sheet: WCAG 2.2 AA, light and dark."""

from __future__ import annotations

import re

import pytest

from pipelines.report.page import STYLES

TEXT = {"paper": ("ink", "soft", "c0", "bad"), "wash": ("ink", "soft")}
"""Colours that text has, by what is behind it."""
GRAPHIC = ("c0", "c1", "c2", "c3", "c4", "c5", "good", "bad")
"""Colours of lines, bars and borders."""


def colours(scheme: str) -> dict[str, str]:
    """Return the style sheet's colours by name."""
    sheet = STYLES[0].read_text()
    light, _, dark = sheet.partition("@media (prefers-color-scheme: dark)")
    found = re.findall(r"--([a-z0-9]+): (#[0-9a-f]{6})", light if scheme == "light" else dark)
    return dict(found)


def luminance(colour: str) -> float:
    """Return the relative luminance (WCAG 2.2)."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_contrast_is_as_defined() -> None:
    assert contrast("#ffffff", "#000000") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.005), "the standard's own example"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_and_lines_can_be_read(scheme: str) -> None:
    known = colours(scheme)
    for ground, names in TEXT.items():
        weak = {name: contrast(known[name], known[ground]) for name in names}
        assert all(value >= 4.5 for value in weak.values()), weak
    weak = {name: contrast(known[name], known["paper"]) for name in GRAPHIC}
    assert all(value >= 3 for value in weak.values()), weak


def test_the_status_can_be_read() -> None:
    sheet = STYLES[0].read_text()
    grounds = re.findall(r"\.status[.a-z]* \{[^}]*background: (#[0-9a-f]{6})", sheet)
    assert len(grounds) == 3 and all(contrast("#ffffff", ground) >= 4.5 for ground in grounds), grounds
