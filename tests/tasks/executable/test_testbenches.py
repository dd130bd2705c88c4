"""Benches of circuits by hand and against Python's operators: simulation, coverage, the verifier and the writers."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.contract.errors import InputError
from components.contract.operators import OperatorRefused
from components.tasks.domains.testbenches import coverage, nodes, passed_points, simulate, vectors_of
from components.tasks.item import Item
from components.tasks.verify import Outcome, verify
from tests.tasks.test_worlds import items, write

WORDS = {"name": "circuits", "given": "words"}


def circuit(answer: str, bench: list[str] | None = None, **data: object) -> Item:
    points = {} if bench is None else {"bench": bench}
    return Item(
        id="c", domain="d", prompt="p", answer=answer, verifier="bench_points", data={"names": "abc", **points, **data}
    )


def computed(text: str, vector: str) -> bool:
    """Compute an expression of a, b, c with Python's own operators on 0 and 1."""
    values = {name: bit == "1" for name, bit in zip("abc", vector, strict=True)}
    return bool(eval(text.replace("~", "1^"), {"__builtins__": {}}, values))  # of our own texts alone


def test_a_simulation_by_hand() -> None:
    passed, log = simulate("000 0\n011 1\n\n110 0\nfoo\n01 1\n011 1", "a&b|c", "abc")
    assert passed == ["000 0", "011 1"]
    assert log[0] == "line 4: 110 gives 1, the bench expects 0"
    assert log[1:] == [f"line {number}: no point of 3 inputs" for number in (5, 6)]
    assert simulate("000 0", "a&", "abc") == ([], ["line 1: the reference does not compile"])
    assert simulate("", "a&b", "ab") == ([], [])


@given(
    st.sampled_from(["a&b|c", "(a|b)&c", "a^b^c", "a^b&c", "a|b^c"]),
    st.lists(st.sampled_from("01"), min_size=8, max_size=8),
)
def test_simulation_is_that_of_pythons_operators(text: str, due: list[str]) -> None:
    vectors = ["".join(bits) for bits in product("01", repeat=3)]
    bench = [f"{vector} {bit}" for vector, bit in zip(vectors, due, strict=True)]
    right = [point for point in bench if computed(text, point[:3]) == (point[4] == "1")]
    passed, log = simulate("\n".join(bench), text, "abc")
    assert passed == right and len(log) == 8 - len(right)
    assert passed_points(text, bench, "abc") == pytest.approx(len(right) / 8)


def test_coverage_by_hand() -> None:
    # a, b, c and a&b, and a&b|c: ten values; 110 reaches a b -c and both gates at 1, 000 the other values but c = 1
    assert len(nodes("a&b|c", "abc")) == 5
    assert coverage(["110 1"], "a&b|c", "abc") == pytest.approx(5 / 10)
    assert coverage(["110 1", "000 0"], "a&b|c", "abc") == pytest.approx(9 / 10)
    assert coverage(["110 1", "000 0", "001 1"], "a&b|c", "abc") == 1
    assert coverage([], "a&b|c", "abc") == 0
    assert coverage(["00 0", "11 0"], "a&~a|b&~b", "ab") == 1  # gates that never change have one value to reach


@settings(max_examples=30)
@given(seed=st.integers(0, 1 << 40))
def test_all_vectors_cover_all_and_fewer_never_more(seed: int) -> None:
    (item,) = items(WORDS, 1, seed)
    names = item.data["names"]
    bench = [f"{row:03b} {item.data['table'][row]}" for row in range(8)]
    assert simulate("\n".join(bench), item.answer, names) == (bench, [])
    shares = [coverage(bench[:count], item.answer, names) for count in range(9)]
    assert shares == sorted(shares) and shares[-1] == 1


@pytest.mark.parametrize(
    ("text", "score"),
    [("a&b|c", 1.0), ("y = a&b|c;", 1.0), ("a|b|c", 0.75), ("~(a&b|c)", 0.0), ("a&", 0.0), ("", 0.0), ("d", 0.0)],
)
def test_the_verifier_by_hand(text: str, score: float) -> None:
    item = circuit("a&b|c", ["000 0", "010 0", "110 1", "001 1"])
    verdict = verify(item, f"<answer>{text}")
    assert verdict.score == score and verdict.right is (score == 1)
    assert (verdict.graded is None) is (score == 1 or text in ("a&", "", "d"))


def test_a_weak_bench_passes_what_the_table_does_not() -> None:
    item = circuit("a^b", ["000 0", "010 1"], names="abc")
    assert verify(item, "<answer>a|b").right
    full = item.model_copy(update={"verifier": "circuits", "data": {"names": "abc", "table": "00111100"}})
    assert verify(full, "<answer>a|b").outcome is Outcome.WRONG and verify(full, "<answer>a^b").right


@pytest.mark.parametrize("bench", [None, [], ["00 1"], ["000 2"], ["000 1", 7], "000 1"])
def test_a_bench_that_is_none_fails_the_verification(bench: object) -> None:
    item = circuit("a").model_copy(update={"data": {"names": "abc", "bench": bench}})
    assert verify(item, "<answer>a").failed


@pytest.mark.parametrize("text", ["a" * 100_000, "(" * 50_000, "a&b\x00", "\ud800", "~" * 400 + "a" * 200])
def test_hostile_answers_are_wrong(text: str) -> None:
    assert verify(circuit("a", ["000 0"]), f"<answer>{text}").outcome is Outcome.WRONG


@given(st.text(max_size=60))
def test_any_text_can_be_listed_and_simulated(text: str) -> None:
    assert all(len(one) == 3 for one in vectors_of(text, 3))
    passed, _ = simulate(text, "a&b|c", "abc")
    assert all(computed("a&b|c", point[:3]) == (point[4] == "1") for point in passed)


def test_the_bench_writer_answers_all_three_requests() -> None:
    def asked(request: str, **data: str) -> Item:
        item = circuit("a&b|c")
        return item.model_copy(update={"data": {"names": "abc", "request": request, **data}})

    listed = write(asked("points"), 3, name="bench_writer", points=5)
    assert len(set(listed.splitlines())) == 5 and vectors_of(listed, 3) == listed.splitlines()
    bench = write(asked("bench", points=listed), name="bench_writer")
    assert simulate(bench, "a&b|c", "abc") == (bench.splitlines(), [])
    wrong = write(asked("bench", points=listed), name="bench_writer", error_rate=1)
    passed, log = simulate(wrong, "a&b|c", "abc")
    assert not passed and len(log) == 5
    broken = "what?\n" + wrong
    _, log = simulate(broken, "a&b|c", "abc")
    assert write(asked("repair", bench=broken, log="\n".join(log)), name="bench_writer") == bench
    with pytest.raises(InputError, match="no request of generator testbench"):
        write(circuit("a&b|c"), name="bench_writer")


def test_the_biased_engineer_mistakes_one_gate_as_often_as_told() -> None:
    item = circuit("a^b&c", None, table="00111100")
    texts = [write(item, seed, name="biased_circuits", rate=0.7, broken_rate=0.1) for seed in range(1000)]
    assert abs(sum("|" in text for text in texts) / 1000 - 0.7) < 0.05
    assert abs(sum(not text.endswith("c") for text in texts) / 1000 - 0.1) < 0.03
    assert write(item, name="biased_circuits", rate=0) == "<answer>a^b&c"
    with pytest.raises(InputError, match="not of source circuits"):
        write(circuit("a"), name="biased_circuits")
    with pytest.raises(OperatorRefused, match="expected two different gates"):
        write(item, name="biased_circuits", taken="&", as_gate="&")
