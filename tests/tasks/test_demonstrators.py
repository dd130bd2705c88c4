"""Demonstrators: the responses of the tiny testbed, by hand."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest

from components.contract.errors import InputError
from components.contract.operators import OperatorSpec
from components.tasks.answers import extract_answer
from components.tasks.item import Item

MAX_TOKENS = 36


def chain(expression: str, answer: int) -> Item:
    data = {"task": "chain_sum", "config": {}, "metadata": {"expression": expression}}
    return Item(id="A-1", domain="A", prompt=f"{expression} =", answer=str(answer), verifier="reasoning_gym", data=data)


def write(item: Item, seed: int = 0, **spec: Any) -> str:
    return OperatorSpec.model_validate(spec).resolve("demonstrator")(item, random.Random(seed))


def test_a_right_trace_is_running_sums() -> None:
    item = chain("4 + 7 - 3", 8)
    assert write(item, name="chain_sum_trace") == "<think>4+7=11 11-3=8<answer>8"
    assert write(item, name="chain_sum_trace", markup=False) == "4+7=11 11-3=8\n8"
    assert write(chain("5 - 9", -4), name="chain_sum_trace") == "<think>5-9=-4<answer>-4"
    assert write(chain("-5 + -9", -14), name="chain_sum_trace") == "<think>-5+-9=-14<answer>-14"


def test_a_sloppy_trace_follows_its_own_arithmetic() -> None:
    item = chain("4 + 7 - 3 + 9", 17)
    wrong = 0
    for seed in range(400):
        response = write(item, seed, name="chain_sum_trace", step_error_rate=0.5)
        steps = [tuple(map(int, m)) for m in re.findall(r"(-?\d+)[+-](\d+)=(-?\d+)", response.partition("<answer>")[0])]
        assert [number for _, number, _ in steps] == [7, 3, 9]
        assert [start for start, _, _ in steps] == [4, *(result for _, _, result in steps[:-1])]
        assert extract_answer(response) == str(steps[-1][2])
        wrong += extract_answer(response) != item.answer
    assert 0.7 < wrong / 400 < 0.95  # 1 - 1/8 of three-step traces hold an error, and some errors cancel


def test_a_step_may_add_several_numbers() -> None:
    item = chain("4 + 7 - 3 + 8 - 9 - 2", 5)
    brief = write(item, name="chain_sum_trace", terms_per_step=2)
    assert brief == "<think>4+7-3=8 8+8-9=7 7-2=5<answer>5"
    assert write(item, name="chain_sum_trace", terms_per_step=9) == "<think>4+7-3+8-9-2=5<answer>5"
    assert write(item, name="repeated_trace", terms_per_step=3) == (
        "<think>4+7-3+8=16 16-9-2=5 4+7-3+8=16 16-9-2=5<answer>5"
    )
    assert write(chain("-5 + -9 - 1", -15), name="chain_sum_trace", terms_per_step=2) == "<think>-5+-9-1=-15<answer>-15"
    for seed in range(50):  # still consistent: each step goes on from the one before
        response = write(item, seed, name="chain_sum_trace", terms_per_step=2, step_error_rate=0.5)
        results = re.findall(r"=(-?\d+)", response)
        starts = re.findall(r"(?:^|[> ])(-?\d+)[+-]", response)
        assert starts == ["4", *results[:-1]] and extract_answer(response) == results[-1]


def test_every_trace_of_the_testbed_fits_into_its_token_limit() -> None:
    longest = write(chain("0 - 9 - 9 - 9", -27), name="chain_sum_trace", step_error_rate=1.0)
    tokens = len(longest.replace("<think>", "T").replace("<answer>", "A")) + 1
    assert tokens <= MAX_TOKENS


def test_gold_and_wrong_answers() -> None:
    item = Item(id="B-1", domain="B", prompt="?", answer="nus", verifier="exact")
    assert write(item, name="gold") == "<answer>nus"
    assert write(item, name="gold", markup=False) == "nus"
    for seed in range(50):
        assert extract_answer(write(item, seed, name="wrong")) != "nus"


def test_other_items_are_refused_by_name() -> None:
    item = Item(id="B-1", domain="B", prompt="?", answer="nus", verifier="exact")
    with pytest.raises(InputError, match="item B-1 is no chain_sum"):
        write(item, name="chain_sum_trace")


def test_a_recorded_response_comes_from_the_items_data() -> None:
    item = Item(id="B-1", domain="B", prompt="?", answer="2", verifier="exact", data={"solution": "1+1=2 #### 2"})
    assert write(item, name="recorded") == "1+1=2 #### 2"
    with pytest.raises(InputError, match=r"item B-1 has no text under 'trace' \(its data: solution\)"):
        write(item, name="recorded", key="trace")


def test_a_confidence_by_chance_follows_the_answer() -> None:
    item = chain("4 + 7", 11)
    response = write(item, name="confident", demonstrator="chain_sum_trace")
    assert re.fullmatch(r"<think>4\+7=11<answer>11</answer><conf>\d+", response)
    assert extract_answer(response) == "11"
    stated = {int(write(item, seed, name="confident", highest=3).rpartition(">")[2]) for seed in range(60)}
    assert stated == {0, 1, 2, 3}, "each number, whatever the answer is worth"
    assert write(item, name="confident", demonstrator={"name": "gold", "markup": False}).startswith("11<conf>")
