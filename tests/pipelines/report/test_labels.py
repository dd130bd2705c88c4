"""Labels that fit, whatever the text and the width."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pipelines.report.labels import CHARACTER, ELLIPSIS, shortened, text_width, wrapped

TEXTS = st.text(st.characters(exclude_categories=("C", "Z")) | st.just(" "), max_size=60)


@given(TEXTS, st.floats(CHARACTER * 3, 300), st.integers(1, 4))
def test_lines_fit_and_nothing_is_lost_without_an_ellipsis(text: str, width: float, max_lines: int) -> None:
    lines = wrapped(text, width, max_lines)
    assert 1 <= len(lines) <= max_lines and all(text_width(line) <= width for line in lines)
    kept = "".join("".join(lines).split())
    whole = "".join(text.split())
    assert kept == whole or (kept.endswith(ELLIPSIS) and whole.startswith(kept.removesuffix(ELLIPSIS)))


@given(TEXTS, st.floats(CHARACTER * 2, 300))
def test_a_shortened_text_fits(text: str, width: float) -> None:
    found = shortened(text, width)
    assert text_width(found) <= width and (found == text or found.endswith(ELLIPSIS))


def test_lines_end_where_words_do() -> None:
    assert wrapped("peak_learning_rate=0.001", 12 * CHARACTER, 3) == ["peak_", "learning_", "rate=0.001"]
    assert wrapped("sft", 40, 3) == ["sft"]
    assert wrapped("loop-10-evaluate-again", 5 * CHARACTER, 2) == ["loop-", f"10-{ELLIPSIS}"]
