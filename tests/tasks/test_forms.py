"""Source forms: values with many surface forms, who writes them and who judges them."""

from __future__ import annotations

import random
from decimal import Decimal
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.contract.errors import InputError
from components.contract.operators import OperatorRefused, OperatorSpec
from components.tasks.domains.worlds.fractions import FORMS, form_of, written
from components.tasks.given_answers import given_answer
from components.tasks.item import Item
from components.tasks.slots import DEMONSTRATOR, SOURCE
from components.tasks.source import SourceRequest
from components.tasks.verify import verify

VALUES = st.sampled_from([4, 5, 8, 10, 16, 20]).flatmap(
    lambda bottom: st.integers(1, bottom - 1).map(lambda top: Fraction(top, bottom))
)


def items(count: int = 40, **config: Any) -> list[Item]:
    request = SourceRequest(seed=1, limit=count, scratch=Path("unused"))
    drawn = OperatorSpec.model_validate({"name": "forms", **config}).resolve(SOURCE)(request)
    fields = ("prompt", "answer", "verifier", "data")
    return [
        Item(id=f"f{at}", domain="forms", **{name: getattr(row, name) for name in fields})
        for at, row in enumerate(islice(drawn.rows, count))
    ]


def write(item: Item, name: str = "forms", seed: int = 0, **config: Any) -> str:
    bound = OperatorSpec.model_validate({"name": name, **config}).resolve(DEMONSTRATOR)
    return str(bound(item, random.Random(seed)))


def test_forms_by_hand() -> None:
    value = Fraction(5, 8)
    assert [written(value, form) for form in FORMS] == ["5/8", "10/16", "0.625", "62.5%"]
    assert written(Fraction(1, 4), "percent") == "25%" and written(Fraction(1, 20), "decimal") == "0.05"
    assert [form_of(text) for text in ("5/8", "10/16", "0.625", "62.5%", "0", "1/1")] == [
        "reduced", "expanded", "decimal", "percent", "decimal", "reduced",
    ]  # fmt: skip
    for text in ("", "x", "5/0", "/8", "5/", "0.6.2", "%", "-5/8", "1e3", "0.", "1/2%", "\u0665/8", "9" * 40):
        assert form_of(text) == "other"


@given(VALUES, st.sampled_from(FORMS))
def test_every_form_has_the_value_and_is_told_apart(value: Fraction, form: Any) -> None:
    text = written(value, form)
    number = (
        Fraction(Decimal(text.rstrip("%"))) / (100 if form == "percent" else 1) if "/" not in text else Fraction(text)
    )
    assert number == value and form_of(text) == form


@given(st.text(max_size=30))
def test_any_text_has_a_form(text: str) -> None:
    assert form_of(text) in (*FORMS, "other")


def test_rows_are_sums_below_one_whose_reference_has_a_hidden_form() -> None:
    found = items(200)
    assert {item.data["form"] for item in found} == set(FORMS)
    for item in found:
        total = sum(map(Fraction, item.prompt.split("+")))
        assert 0 < total < 1 and str(total) == item.data["value"] and form_of(item.answer) == item.data["form"]
        assert all(verify(item, f"<answer>{written(total, form)}").right for form in FORMS)
        assert not verify(item, f"<answer>{written(total / 2, 'decimal')}").right
    by_prompt = {item.prompt: item.answer for item in found}
    assert all(by_prompt[item.prompt] == item.answer for item in items(200)), "a question always has one reference"
    assert {item.data["form"] for item in items(forms=["decimal"])} == {"decimal"}


@pytest.mark.parametrize("denominators", [[3], [7, 8], [2], [0], []])
def test_fractions_without_an_end_are_refused(denominators: list[int]) -> None:
    with pytest.raises(OperatorRefused):
        items(denominators=denominators)


def test_writers_are_right_in_every_form_or_near_it() -> None:
    seen = set()
    for at, item in enumerate(items(80)):
        text = write(item, seed=at)
        seen.add(form_of(text.removeprefix("<answer>")))
        assert verify(item, text).right and not verify(item, write(item, seed=at, error_rate=1.0)).right
        assert form_of(write(item, markup=False, forms=["percent"])) == "percent"
    assert seen == set(FORMS)
    with pytest.raises(InputError, match="item a is not of source forms"):
        write(Item(id="a", domain="d", prompt="2+2", answer="4", verifier="exact"))


def judged(response: str, **config: Any) -> str:
    data = {"request": "judge", "response": response, "endings": {"right": "so y", "wrong": "so n"}}
    item = Item(id="a", domain="d", prompt="3/8+2/8", answer="62.5%", verifier="numeric", data=data)
    return write(item, "form_judgement", **config)


def test_judgements_show_both_values_and_the_verdict() -> None:
    assert judged("10/16") == "5/8 5/8\nso y" and judged("<answer>0.6") == "5/8 3/5\nso n"
    assert judged("so y") == "5/8 ?\nso n" == judged("") and judged("9" * 60) == "5/8 ?\nso n"
    assert judged("10/16", error_rate=1.0) == "5/8 5/8\nso n"
    with pytest.raises(InputError, match="item f0 is no request of generator judgements"):
        write(items(1)[0], "form_judgement")


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        ("<answer>4", "4"),
        ("<answer> 4 </answer> done", "4"),
        ("so \\boxed{4}", "4"),
        ("sum\n#### 4", "4"),
        ("<think>4", None),
        ("4", None),
        ("<answer>", None),
        ("", None),
        ("<think>a</think>4", None),
    ],
)
def test_an_answer_stands_behind_a_mark(response: str, answer: str | None) -> None:
    assert given_answer(response) == answer


def test_openers_stand_in_front_and_sometimes_alone() -> None:
    (item,) = items(1)
    inner = {"name": "forms", "forms": ["reduced"]}
    text = write(item, "opened", openers=["Hm"], demonstrator=inner)
    assert text == f"Hm <answer>{item.data['value']}" and verify(item, text).right
    many = [write(item, "opened", seed=seed, openers=["Hm", ":"], bare=0.25) for seed in range(400)]
    bare = sum(text in ("Hm", ":") for text in many)
    assert 70 < bare < 130 and {text.split(" ")[0] for text in many} == {"Hm", ":"}
    for bad in ({"openers": []}, {"openers": [" "]}, {"demonstrator": "no_such"}):
        with pytest.raises(OperatorRefused):
            write(item, "opened", **bad)
