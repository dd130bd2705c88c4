"""Source guided: items of another source with an expert's solution in the prompt."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.contract.errors import InputError
from components.contract.operators import OperatorRefused, OperatorSpec
from components.curate.component import COMPONENT
from components.curate.params import CurateParams
from components.runtime.ledger.fingerprint import fingerprint
from components.tasks.item import Item
from components.tasks.source import SourceRequest, SourceRow, SourceRows
from components.tasks.sources.guided import guided_prompt
from components.tasks.verify import Outcome, verify

INNER = {"name": "rules", "accepts": [{"rules": ["reverse"]}], "min_length": 4, "max_length": 4, "seed": 5}
EXPERT = {"name": "rule", "rule": "reverse", "mark": True}


def rows_of(spec: dict[str, object], count: int, seed: int = 0) -> list[SourceRow]:
    found: SourceRows = OperatorSpec.model_validate(spec).resolve("source")(SourceRequest(seed, count, Path()))
    rows = list(islice(found.rows, count))
    assert all(isinstance(row, SourceRow) for row in rows)
    return rows  # type: ignore[return-value]


def test_prompts_hold_the_solution_and_answers_stay() -> None:
    plain = rows_of(INNER, 3)
    spec = {"name": "guided", "source": INNER, "expert": EXPERT, "template": "{prompt} | {solution} | again:"}
    for before, after in zip(plain, rows_of(spec, 3), strict=True):
        assert after.prompt == f"{before.prompt} | R<answer>{before.answer} | again:"
        assert (after.answer, after.verifier, after.data) == (before.answer, before.verifier, before.data)
        item = Item(id="x", domain="d", prompt=after.prompt, answer=after.answer, verifier=after.verifier)
        assert verify(item, f"<answer>{after.answer}").outcome is Outcome.RIGHT


@given(st.text(max_size=20), st.text(max_size=20))
def test_braces_in_prompts_and_solutions_are_text(prompt: str, solution: str) -> None:
    assert guided_prompt("a {prompt} b {solution} c", prompt, solution) == f"a {prompt} b {solution} c"
    assert guided_prompt("{solution}|{prompt}", prompt, solution) == f"{solution}|{prompt}"


def test_sloppy_experts_depend_on_the_seed_only() -> None:
    spec = {"name": "guided", "source": INNER, "expert": EXPERT | {"letter_error_rate": 0.5}}
    assert rows_of(spec, 5) == rows_of(spec, 5) != rows_of(spec, 5, seed=1)


def test_mistakes_are_named() -> None:
    for settings, words in (
        ({"source": INNER, "template": "{prompt}"}, r"needs \{prompt\} and \{solution\}"),
        ({"source": {"name": "jsonl", "path": "x.jsonl"}}, "a source without end is needed"),
    ):
        with pytest.raises(OperatorRefused, match=words):
            OperatorSpec(name="guided", **settings).resolve("source")
    with pytest.raises(InputError, match="unknown source operator 'ruled'"):
        OperatorSpec(name="guided", source="ruled").resolve("source")


def test_what_a_guided_source_calls_is_in_the_fingerprint() -> None:
    params = CurateParams.model_validate(
        {"size": 4, "sources": [{"source": {"name": "guided", "source": INNER, "expert": EXPERT}}]}
    )
    found = fingerprint(COMPONENT, params, {}, 0).parts["code"]
    assert {"components/tasks/sources/rules.py", "components/tasks/demonstrators/rule.py"} <= found.keys()
