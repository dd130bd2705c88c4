"""Source templated: items of another source asked in another form."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.contract.errors import InputError
from components.contract.operators import OperatorRefused, OperatorSpec
from components.tasks.source import SourceRequest, SourceRow, SourceRows
from components.tasks.verify import verify

INNER = {"name": "solution_sets", "min_solutions": 2}


def rows_of(spec: dict[str, object], count: int, seed: int = 0) -> list[SourceRow]:
    found: SourceRows = OperatorSpec.model_validate(spec).resolve("source")(SourceRequest(seed, count, Path()))
    return [row for row in islice(found.rows, count) if isinstance(row, SourceRow)]


def test_the_template_holds_the_prompt_and_all_else_stays() -> None:
    for before, after in zip(
        rows_of(INNER, 3),
        rows_of({"name": "templated", "source": INNER, "template": "think: {prompt} now"}, 3),
        strict=True,
    ):
        assert after.prompt == f"think: {before.prompt} now"
        assert (after.answer, after.verifier, after.data) == (before.answer, before.verifier, before.data)


def test_settings_change_what_the_verifier_accepts() -> None:
    spec = {"name": "templated", "source": INNER, "template": "{prompt}", "settings": {"accept": "any"}}
    strict, lenient = rows_of({**spec, "settings": {}}, 1)[0], rows_of(spec, 1)[0]
    one = strict.data["solutions"][0]
    assert lenient.data["settings"] == {"accept": "any"} and "settings" not in strict.data
    assert [verify(row.item("d"), f"<answer>{one}").right for row in (strict, lenient)] == [False, True]
    assert all(verify(row.item("d"), f"<answer>{row.answer}").right for row in (strict, lenient))
    twice = {"name": "templated", "source": spec, "template": "{prompt}", "settings": {"accept": "all"}}
    assert rows_of(twice, 1)[0].data["settings"] == {"accept": "all"}, "the outer setting counts"


@given(before=st.text(max_size=8), after=st.text(max_size=8))
def test_any_text_around_the_place_is_kept(before: str, after: str) -> None:
    template = f"{before}{{prompt}}{after}"
    asked = rows_of({"name": "templated", "source": INNER, "template": template}, 2)
    assert [row.prompt for row in asked] == [before + row.prompt + after for row in rows_of(INNER, 2)]


def test_what_cannot_be_asked_is_refused_in_one_line() -> None:
    for settings in ({"source": INNER, "template": "no place"}, {"source": INNER, "template": "{prompt}{prompt}"}):
        with pytest.raises((InputError, OperatorRefused), match="once") as refused:
            OperatorSpec(name="templated", **settings).resolve("source")
        assert "\n" not in str(refused.value)
    with pytest.raises((InputError, OperatorRefused), match="ends"):
        OperatorSpec(name="templated", source={"name": "jsonl", "path": "x"}, template="{prompt}").resolve("source")
