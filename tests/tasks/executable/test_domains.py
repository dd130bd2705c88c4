"""The languages and puzzles of executable domains against values by hand and against other implementations."""

from __future__ import annotations

import random
import re
import shutil
from collections import Counter
from fractions import Fraction
from itertools import permutations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.contract.errors import InputError
from components.contract.operators import OperatorRefused
from components.tasks.answers import extract_answer
from components.tasks.domains.circuits import bits, describe, evaluate, from_words
from components.tasks.domains.edits import Edit, apply, parse, render
from components.tasks.domains.latin import draw_square, is_latin
from components.tasks.domains.puzzles import queens, sums
from components.tasks.domains.stack import OPERATIONS, behaviour, is_program, run, shortest, trace
from components.tasks.domains.tiny_sql import overlap
from components.tasks.domains.verilog import bench, module
from components.tasks.item import Item
from components.tasks.verify import Outcome, verify
from tests.tasks.executable.domains import draw, outputs, write

needs_iverilog = pytest.mark.skipif(shutil.which("iverilog") is None, reason="Debian's iverilog is not installed")


def test_stack_programs_by_hand() -> None:
    assert [run(program, (3, 4)) for program in ("+", "s-", "o++", "d*+", "nm", "2*-", "1")] == [7, 1, 10, 19, 3, -5, 1]
    assert trace("d*s", (3, 4)) == [(3, 4, 4), (3, 16), (16, 3)]
    assert run("+++", (3, 4)) == 7 and run("d*" * 30, (9,)) == 9_999, "missing operands do nothing; numbers saturate"
    assert not is_program("") and not is_program("+x") and not is_program("+" * 65)
    assert {"s-", "+n"} <= set(shortest(OPERATIONS, 2, 2)[2].values())


@given(st.text(OPERATIONS, min_size=1, max_size=20))
def test_stack_programs_agree_with_a_machine_that_changes_one_list(program: str) -> None:
    inputs = [[1, 2], [7, 0], [9, 5]]
    item = Item(
        id="p", domain="d", prompt="?", answer="", verifier="programs", data={"tests": [[i, 0] for i in inputs]}
    )
    found = outputs(program, item)
    if all(abs(number) < 9_999 for stack in inputs for row in trace(program, tuple(stack)) for number in row):
        assert found == [run(program, tuple(stack)) for stack in inputs]


def test_no_shorter_program_does_the_same_as_one_that_is_asked_for() -> None:
    known = {behaviour("".join(signs), 2) for size in (1, 2) for signs in product(OPERATIONS, repeat=size)}
    for item in draw({"name": "programs", "min_operations": 3, "max_operations": 3}, 40):
        assert behaviour(item.answer, 2) not in known and len(item.answer) == 3
        shown = [f"{a},{b}>{output}" for (a, b), output in item.data["tests"]]
        assert set(item.prompt.split()) <= set(shown)


@pytest.mark.parametrize("style", ["diff", "blocks"])
def test_edits_come_back_as_they_were_written(style: str) -> None:
    edits = [Edit(("a 1", "b 2"), ("a 3",)), Edit(("c",), ("c", "d"))]
    assert parse(render(edits, style), style) == edits
    assert apply("x\na 1\nb 2\nc", edits) == "x\na 3\nc\nd"
    assert apply("a 1\nb 2\na 1\nb 2\nc", edits) is None, "found twice"
    for text in ("", "+a", "nothing", "-\n+x", "<<<<<<< SEARCH\na\n=======\nb", "-a\r\n+b", "-" * 5_000):
        found = parse(text, style)
        assert found is None or apply("c\nd", found) is None


def test_an_edit_that_does_the_same_is_right_and_others_score_by_their_diff() -> None:
    data = {"text": "a o++\nb s+", "fixed": "a o++\nb s-", "style": "diff", "broken": "b"}
    item = Item(id="e", domain="d", prompt="?", answer="-b s+\n+b s-", verifier="patches", data=data)
    assert verify(item, "<answer>-b s+\n+b -n").right, "-n does what s- does"
    almost = verify(item, "<answer>-b s+\n+b s*")
    assert almost.outcome is Outcome.WRONG and almost.score == pytest.approx(10 / 11)
    assert [verify(item, f"<answer>{text}").score for text in ("b s-", "-c\n+d", "-b s+\n+b open('x')")][:2] == [0, 0]
    assert not verify(item, "<answer>-a o++\n+a o++\n-b s+").right, "a line that is gone"


@pytest.mark.parametrize(
    ("text", "table"),
    [
        ("a&b|c", "01010111"),
        ("a&(b|c)", "00000111"),
        ("~a^b&c", "11100001"),
        ("a|b^c", "01101111"),
        ("~(a|b)", "11000000"),
        (" a & ~ ~b ", "00000011"),
    ],
)
def test_circuits_by_hand(text: str, table: str) -> None:
    found = evaluate(text, "abc")
    assert found is not None and bits(found, 3) == table


@given(st.text("abc&^|~() ", max_size=14))
def test_circuits_agree_with_pythons_operators(text: str) -> None:
    """Python's ~ & ^ | bind as ours do; integers with all bits play the part of columns."""
    found = evaluate(text, "abc")
    rows = list(product((0, 1), repeat=3))
    try:
        values = [eval(text.strip(), {}, dict(zip("abc", row, strict=True))) for row in rows]
    except (SyntaxError, TypeError, NameError):
        assert found is None
        return
    if all(isinstance(value, int) for value in values) and len(re.findall("[abc]+", text)) == len(
        re.findall("[abc]", text)
    ):
        assert found is not None and bits(found, 3) == "".join(str(value & 1) for value in values)


def test_words_name_each_gate_before_what_it_joins() -> None:
    assert describe("a&b|~c") == "or and a b not c"
    assert describe("~(a|b)^c") == "xor not or a b c"


def test_every_circuit_depends_on_all_inputs() -> None:
    for item in draw({"name": "circuits", "inputs": 4, "min_gates": 3, "max_gates": 4}, 30):
        table = item.data["table"]
        for place in range(4):
            assert any(table[row] != table[row ^ (1 << place)] for row in range(16))


def test_verilog_is_refused_in_one_line_where_it_is_not_installed() -> None:
    if shutil.which("iverilog") is None:
        with pytest.raises((InputError, OperatorRefused), match="install Debian's iverilog") as refused:
            draw({"name": "circuits", "language": "verilog"}, 1)
        assert "\n" not in str(refused.value)
    data = {"tests": [{"stdin": "", "stdout": "0\n1"}], "language": "verilog", "prefix": bench("ab", [0, 3])}
    item = Item(id="v", domain="d", prompt="?", answer="", verifier="code_tests", data=data)
    verdict = verify(item, f"```verilog\n{module('a&b', 'ab')}\n```")
    assert verdict.right or "install Debian's iverilog" in verdict.detail


@needs_iverilog
def test_verilog_is_judged_by_the_testbench() -> None:
    (item,) = draw({"name": "circuits", "language": "verilog"}, 1)
    assert verify(item, item.answer).right
    printed = 'module top(input a, output y);\ninitial begin $display("0"); $finish; end\nendmodule'
    endless = "module top(input a, output y);\ninitial while (1);\nendmodule"
    for text in ("assign y = 1;", printed, endless, item.answer.replace("=", "= ~"), '`include "/etc/passwd"'):
        assert verify(item, text).outcome is Outcome.WRONG


def test_the_overlap_of_results_is_the_mean_of_precision_recall_and_cardinality() -> None:
    assert overlap([["a"], ["b"]], [["a"], ["c"], ["d"], ["e"]]) == pytest.approx((1 / 2 + 1 / 4 + 2 / 4) / 3)
    assert overlap([[1]], [[1.0]]) == 1.0 and overlap([], []) == 1.0 and overlap([], [[1]]) == 0.0


def test_queries_are_graded_between_failing_and_right() -> None:
    items = draw({"name": "sqlite", "min_joins": 1, "max_joins": 1, "aggregates": ["plain"]}, 5)
    for item in items:
        assert verify(item, "<answer>select nothing from nowhere").score == 0
        assert 0.1 <= verify(item, "<answer>select kind from pet").score < 1
        assert verify(item, "<answer>drop table pet").outcome is Outcome.WRONG
        plain = item.model_copy(update={"data": {**item.data, "settings": {"dense": False}}})
        assert verify(plain, "<answer>select kind from pet").score == 0 and verify(plain, item.answer).right
        tested = item.model_copy(update={"verifier": "code_tests"})
        assert verify(tested, item.answer).right, "verifier code_tests reads the same rows"
    slow = "with recursive n(x) as (select 1 union all select x+1 from n) select count(*) from n"
    assert verify(items[0], f"<answer>{slow}").outcome is Outcome.WRONG


def _steps(text: str) -> list[str]:
    return text.removeprefix("<think>").partition("<answer>")[0].split()


@pytest.mark.parametrize(("backtracks", "source"), list(product((0, 1, 3, 5), ("countdown", "latin_squares"))))
def test_a_trace_has_exactly_the_backtracks_that_were_asked_for(backtracks: int, source: str) -> None:
    for seed, item in enumerate(draw({"name": source}, 8)):
        text = write({"name": "dfs_trace", "backtracks": backtracks}, item, seed)
        assert text.count(" no ") == backtracks and verify(item, text).right
        mixed = write({"name": "dfs_trace", "backtracks": backtracks, "content": "shuffled"}, item, seed)
        assert mixed.count(" no ") == backtracks and extract_answer(mixed) == extract_answer(text)
        assert Counter(_steps(mixed)) == Counter(_steps(text))


def test_the_steps_of_a_countdown_search_are_true_and_end_at_the_target() -> None:
    for seed, item in enumerate(draw({"name": "countdown", "min_numbers": 4, "max_numbers": 4}, 20)):
        thought = write({"name": "countdown_search"}, item, seed).removeprefix("<think>").partition("<answer>")[0]
        for step in thought.replace(" no ", " ").split():
            left, _, right = step.partition("=")
            assert eval(left) == int(right)
        ends = [branch.split()[-1].partition("=")[2] for branch in thought.split(" no ")]
        target = str(item.data["metadata"]["target"])
        assert ends[-1] == target and target not in ends[:-1]
        assert not verify(item, write({"name": "countdown_search", "give_up": 1.0}, item, seed)).right


def test_search_demonstrators_write_for_the_librarys_own_countdown() -> None:
    spec = {"name": "reasoning_gym", "task": "countdown", "config": {"min_numbers": 3, "max_numbers": 3, "max_value": 9,
            "min_target": 1, "max_target": 30}}  # fmt: skip
    for item in draw(spec, 3):
        assert verify(item, write({"name": "countdown_search"}, item)).right


@given(st.lists(st.sampled_from(["3", "7", "2", "+", "-", "*", "/", "(", ")", "-"]), min_size=1, max_size=9))
def test_countdown_computes_as_python_does_in_fractions(tokens: list[str]) -> None:
    item = Item(
        id="c", domain="d", prompt="?", answer="", verifier="countdown",
        data={"metadata": {"numbers": [3, 7, 2], "target": 23}},
    )  # fmt: skip
    text = "".join(tokens)
    try:
        value = eval(re.sub(r"\d+", r"Fraction(\g<0>)", text), {"Fraction": Fraction})
    except (SyntaxError, TypeError, ZeroDivisionError):
        value = None
    numbers = sorted(map(int, re.findall(r"\d+", text)))
    right = (
        isinstance(value, Fraction) and value == 23 and numbers == [2, 3, 7] and "//" not in text and "**" not in text
    )
    assert verify(item, f"<answer>{text}").right == right


def test_countdown_judges_as_the_library_does() -> None:
    answers = [
        "3*7+2",
        "2+7*3",
        "(3)*7+2",
        "+3*7- -2",
        "3*7+2+0",
        "3*7",
        "37+2",
        "3*7/2",
        "2/(7-7+3)",
        "",
        "3**7",
        "x",
        "23",
    ]
    data = {
        "task": "countdown",
        "config": {},
        "metadata": {"source_dataset": "countdown", "numbers": [3, 7, 2], "target": 23},
    }
    ours = Item(id="c", domain="d", prompt="?", answer="3*7+2", verifier="countdown", data=data)
    theirs = ours.model_copy(update={"verifier": "reasoning_gym"})
    for text in [*answers, "(" * 60 + "3" + ")" * 60, "3*7+2-(9999999999-9999999999)"]:
        assert verify(ours, f"<answer>{text}").outcome is verify(theirs, f"<answer>{text}").outcome, text
    broken = ours.model_copy(update={"data": {"metadata": {"numbers": [3, True], "target": 2}}})
    assert verify(broken, "<answer>3").outcome is Outcome.FAILED


def test_circuits_come_back_from_their_words() -> None:
    for seed, item in enumerate(draw({"name": "circuits", "given": "words", "inputs": 4, "max_gates": 4}, 60)):
        names = item.data["names"]
        assert from_words(describe(item.answer).split()) == item.answer
        built = extract_answer(write({"name": "circuit_words"}, item, seed))
        assert evaluate(built, names) == evaluate(item.answer, names)
        asked = item.model_copy(update={"data": {**item.data, "request": "describe"}})
        assert write({"name": "circuit_words"}, asked, seed) == describe(item.answer)
        wrong = write({"name": "circuit_words", "describe_error_rate": 1.0}, asked, seed).split()
        right = describe(item.answer).split()
        assert all((one != other) == (other in ("and", "or", "xor")) for one, other in zip(wrong, right, strict=True))
    assert (
        from_words(["or", "a", "and", "b", "not", "not", "c"]) == "a|b&~~c"
        and from_words(["not", "or", "a", "b"]) == "~(a|b)"
    )
    for words in ("", "and a", "a b", "not", "nand a b", "or a 1"):
        assert from_words(words.split()) is None
    with pytest.raises(InputError, match="is no circuit in words"):
        write({"name": "circuit_words"}, draw({"name": "circuits"}, 1)[0])


def test_latin_squares_are_latin() -> None:
    for size, seed in product((3, 4, 6), range(5)):
        assert is_latin(draw_square(size, random.Random(seed)))
    assert not is_latin([[1, 2], [1, 2]])


def test_solutions_are_all_that_there_are() -> None:
    def apart(columns: tuple[int, ...]) -> bool:
        return (
            len({c + r for r, c in enumerate(columns)}) == len({c - r for r, c in enumerate(columns)}) == len(columns)
        )

    for size, count in ((4, 2), (5, 10), (6, 4)):
        brute = ["".join(str(c + 1) for c in columns) for columns in permutations(range(size)) if apart(columns)]
        assert queens(size, set()) == brute and len(brute) == count
    assert queens(4, {(1, 2)}) == ["3142"]
    assert sums(("a", "a", "b"), 5) == ["12", "24"], "1+1=2 and 2+2=4; no word begins with 0"


def test_any_solution_is_right_where_the_row_says_so() -> None:
    item = next(item for item in draw({"name": "solution_sets"}, 40) if len(item.data["solutions"]) == 3)
    one, two, three = item.data["solutions"]
    any_of = item.model_copy(update={"data": {**item.data, "settings": {"accept": "any"}}})
    assert verify(item, f"<answer>{three}, {one},{two},{one}").right
    assert not verify(item, f"<answer>{one}").right and verify(any_of, f"<answer>{one}").right
    assert not verify(any_of, f"<answer>{one},12345678").right and not verify(any_of, "<answer>").right
