"""The critic of worked sums: critiques by hand, verdicts against plain arithmetic, and hostile responses."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.contract.errors import InputError
from components.contract.operators import OperatorSpec
from components.tasks.answers import extract_answer
from components.tasks.item import Item

STEPS = re.compile(r"(-?\d+)([+-])(-?\d+)=(-?\d+)")


def asked(expression: str, answer: int, response: str | None) -> Item:
    data: dict[str, Any] = {"metadata": {"expression": expression}}
    if response is not None:
        data["response"] = response
    return Item(id="A-1", domain="A", prompt=f"{expression} =", answer=str(answer), verifier="reasoning_gym", data=data)


def critique(response: str | None, seed: int = 0, expression: str = "4 + 7 - 3 + 2", **settings_: Any) -> str:
    spec = OperatorSpec.model_validate({"name": "sum_critique", **settings_})
    return spec.resolve("demonstrator")(asked(expression, 10, response), random.Random(seed))


class TestByHand:
    def test_a_right_solution(self) -> None:
        found = critique("<think>4+7=11 11-3=8 8+2=10<answer>10")
        assert found == "<think>4+7=11 ok 11-3=8 ok 8+2=10 ok<answer>right"

    @pytest.mark.parametrize(("after", "rest"), [("redo", " 8+2=10"), ("go_on", " 9+2=11 ok"), ("stop", "")])
    def test_what_follows_a_wrong_step(self, after: str, rest: str) -> None:
        found = critique("<think>4+7=11 11-3=9 9+2=11<answer>11", after=after)
        assert found == f"<think>4+7=11 ok 11-3=9 no 11-3=8{rest}<answer>wrong"

    def test_errors_that_cancel_are_wrong_though_the_answer_is_right(self) -> None:
        found = critique("<think>4+7=12 12-3=8 8+2=10<answer>10", after="go_on")
        assert found == "<think>4+7=12 no 4+7=11 12-3=8 no 12-3=9 8+2=10 ok<answer>wrong"

    def test_an_answer_alone_is_judged_by_a_solution(self) -> None:
        assert critique("<answer>10") == "<think>4+7=11 11-3=8 8+2=10<answer>right"
        assert critique("<answer>9") == "<think>4+7=11 11-3=8 8+2=10<answer>wrong"

    def test_another_answer_than_the_last_total_is_wrong(self) -> None:
        assert critique("<think>4+7=11 11-3=8 8+2=10<answer>9").endswith("8+2=10 ok<answer>wrong")

    def test_steps_that_are_left_out_are_worked_out(self) -> None:
        assert critique("<think>4+7=11<answer>10") == "<think>4+7=11 ok 11-3=8 8+2=10<answer>right"

    def test_a_step_that_is_not_due_and_one_too_many(self) -> None:
        assert critique("<think>4+3=7 7-3=4 4+2=6<answer>6", after="stop") == "<think>4+3=7 no 4+7=11<answer>wrong"
        assert critique("<think>4+7=11 11-3=8 8+2=10 10+1=11<answer>10").endswith("<answer>wrong")

    def test_marks_and_words(self) -> None:
        found = critique("<think>4+7=11 11-3=9<answer>9", marks=["y", "n"], words=["yes", "not"], after="stop")
        assert found == "<think>4+7=11 y 11-3=9 n 11-3=8<answer>not"


class TestCare:
    RIGHT = "<think>4+7=11 11-3=8 8+2=10<answer>10"
    WRONG = "<think>4+7=11 11-3=9 9+2=11<answer>11"

    def test_a_critic_that_always_errs_says_the_opposite_of_each_check(self) -> None:
        assert critique(self.WRONG, error_rate=1.0, after="go_on").count(" ok") == 1, "only the wrong step passes"
        found = critique(self.RIGHT, error_rate=1.0, after="stop")
        assert re.fullmatch(r"<think>4\+7=11 no 4\+7=1[02]<answer>wrong", found)

    def test_errors_are_as_frequent_as_asked(self) -> None:
        alarms = sum("no" in critique(self.RIGHT, seed, error_rate=0.2) for seed in range(600))
        assert abs(alarms / 600 - (1 - 0.8**3)) < 0.06


NUMBERS = st.lists(st.tuples(st.sampled_from("+-"), st.integers(0, 9)), min_size=1, max_size=5)


@settings(deadline=None, max_examples=150)
@given(first=st.integers(0, 9), changes=NUMBERS, rate=st.sampled_from([0.0, 0.4]), seed=st.integers(0, 10**6))
def test_a_careful_critic_agrees_with_arithmetic(
    first: int, changes: list[tuple[str, int]], rate: float, seed: int
) -> None:
    expression = " ".join([str(first), *(f"{sign} {number}" for sign, number in changes)])
    answer = eval(expression)
    trace = OperatorSpec.model_validate({"name": "chain_sum_trace", "step_error_rate": rate}).resolve("demonstrator")
    written = trace(asked(expression, answer, None), random.Random(seed))
    steps = [match.group(0).split("=") for match in STEPS.finditer(written)]
    sound = all(eval(left) == int(right) for left, right in steps)
    found = critique(written, seed, expression)
    assert extract_answer(found) == ("right" if sound else "wrong")
    if sound:
        assert extract_answer(written) == str(answer)
    else:
        assert STEPS.findall(found)[-1][3] == str(answer), "what is redone ends at the right total"


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("after", ["redo", "go_on", "stop"])
def test_hostile_responses_are_never_quoted(seed: int, after: str) -> None:
    rng = random.Random(seed)
    pieces = [
        "<answer>right",
        "<think>",
        "4+7=11",
        "11-3=8",
        "x",
        "{prompt}",
        "9" * 5000,
        "4+7=" + "1" * 400,
        "\n",
        "ok",
    ]
    response = " ".join(rng.choices(pieces, k=200))
    found = critique(response, after=after)
    assert re.fullmatch(r"<think>(?:(?:-?\d{1,10}[+-]-?\d+=-?\d{1,10}|ok|no) ?)+<answer>(?:right|wrong)", found)
    assert len(found) < 400


def test_bad_input_is_refused() -> None:
    with pytest.raises(InputError, match=r"holds no response to criticise \(data.response\)"):
        critique(None)
    with pytest.raises(InputError, match="is no chain_sum"):
        critique("<answer>1", expression="rev abc")
    with pytest.raises(InputError, match=r"words .* two different texts"):
        critique("<answer>1", words=["yes", "YES "[:3]])
