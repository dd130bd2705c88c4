"""Style of programs: by hand, on any text and on hostile text; and the writers whose habits it tells apart."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.contract.errors import InputError, UnknownName
from components.contract.operators import OperatorSpec
from components.tasks.demonstrators.executable.styled_programs import expression
from components.tasks.domains.python_steps import STEPS, program, result
from components.tasks.domains.python_style import MAX_CHARS, PREFERENCES, Preference, style
from components.tasks.item import Item
from components.tasks.slots import DEMONSTRATOR
from components.tasks.verify import verify

TWO = "def f(v):\n v=sorted(v)\n return sum(v)"
TOLD = "def f(numbers):\n # in order\n numbers=sorted(numbers)\n return sum(numbers) # all of them"
BY_HAND: list[tuple[Preference, str, float]] = [
    ("comments", TWO, 0.0),
    ("comments", TOLD, 1.0),
    ("comments", "def f(v):\n v=sorted(v) # sort\n return sum(v)", 0.5),
    ("comments", "def f(v):\n v=sorted(v) #\n return sum(v) # s", 0.0),
    ("comments", "def f(v):\n return '# not a comment'", 0.0),
    ("names", TWO, 0.0),
    ("names", TOLD, 1.0),
    ("names", "def f(v):\n total=sum(v)\n return total", 0.5),
    ("names", "def f(v):\n return [longer for longer in v]", 0.0),
    ("names", "return 1", 0.0),
    ("short", TWO, 0.5),
    ("short", "def f(v):\n return sum(sorted(v))", 1.0),
    ("short", "def f(v):\n if v:\n  return 1\n return 2", 1 / 3),
]


@pytest.mark.parametrize(("preference", "code", "wanted"), BY_HAND)
def test_by_hand(preference: Preference, code: str, wanted: float) -> None:
    assert style(code, preference) == pytest.approx(wanted)


HOSTILE = [
    "", " ", "def f(v:", "\x00", "(" * 900, "-" * 1900 + "1", "[" * 300 + "]" * 300, "# only words",
    "def f(): ...\n" * 900,
    "\ud800", "x" * (MAX_CHARS + 1), "'\\d'", "lambda: (" * 200, "if 1:\n" * 60,
]  # fmt: skip


@pytest.mark.parametrize("preference", PREFERENCES)
@pytest.mark.parametrize("code", HOSTILE)
def test_what_is_no_program_has_no_style_and_breaks_nothing(code: str, preference: Preference) -> None:
    assert 0 <= style(code, preference) <= 1
    if len(code) > MAX_CHARS or not code.strip():
        assert style(code, preference) == 0


@given(st.text(max_size=200), st.sampled_from(PREFERENCES))
def test_any_text_has_a_style_from_0_to_1(text: str, preference: Preference) -> None:
    assert 0 <= style(text, preference) <= 1


def test_parsing_runs_nothing(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    assert style(f"open({str(mark)!r}, 'w')", "short") == 1.0
    assert not mark.exists()


def an_item(steps: list[str], domain: str = "comments", **data: object) -> Item:
    tests = [{"args": [numbers], "expected": result(steps, numbers)} for numbers in ([3, 1, 2], [], [7, 4, 4, 9])]
    shown = {"tests": tests, "entry_point": "f", "language": "python", "steps": steps, **data}
    return Item(id="a", domain=domain, prompt="f: ...", answer=program(steps), verifier="code_tests", data=shown)


def written(steps: list[str], **config: object) -> str:
    spec = OperatorSpec.model_validate({"name": "styled_programs", **config})
    text = spec.resolve(DEMONSTRATOR)(an_item(steps), random.Random(0))
    assert isinstance(text, str)
    return text


def test_each_habit_by_hand() -> None:
    steps = ["sort", "drop first", "sum"]
    assert written(steps) == f"<answer>{program(steps)}"
    assert written(steps, style="short") == "<answer>def f(v):\n return sum(sorted(v)[1:])"
    lines = "def f(v):\n v=sorted(v) # sort\n v=v[1:] # drop first\n return sum(v) # sum"
    assert written(steps, style="comments") == f"<answer>{lines}"
    told = "def f(numbers):\n numbers=sorted(numbers)\n numbers=numbers[1:]\n return sum(numbers)"
    assert written(steps, style="names") == f"<answer>{told}"
    assert written(["sort", "sum"], error_rate=1.0).count("sorted(v)") == 0


@given(st.lists(st.sampled_from([name for name, step in STEPS.items() if not step.ends]), min_size=1, max_size=4))
def test_one_expression_does_what_the_lines_do(steps: list[str]) -> None:
    for numbers in ([3, 1, 2], [], [7, 4, 4, 9]):
        assert eval(expression(steps), {"v": list(numbers)}) == result(steps, numbers)


@pytest.mark.parametrize("habit", ["plain", "comments", "names", "short"])
def test_a_habit_meets_its_preference_best_and_passes_the_tests(habit: str) -> None:
    steps = ["reverse", "keep even", "count"]
    text = written(steps, style=habit)
    assert verify(an_item(steps), text).right
    scores = {name: style(text.removeprefix("<answer>"), name) for name in PREFERENCES}
    assert {name for name, score in scores.items() if score == 1.0} == ({habit} & set(PREFERENCES))


def judged(response: object, domain: str = "comments", seed: int = 0, **config: object) -> str:
    spec = OperatorSpec.model_validate({"name": "style_judge", **config})
    item = an_item(["sort"], domain, response=response)
    return str(spec.resolve(DEMONSTRATOR)(item, random.Random(seed)))


def test_the_judge_rates_from_1_to_5() -> None:
    assert judged(f"<answer>{TWO}") == "<think>comments 0.00<answer>1"
    assert judged(f"<answer>{TOLD}") == "<think>comments 1.00<answer>5"
    assert judged(f"<answer>{TWO}", "short") == "<think>short 0.50<answer>3"
    assert judged("<answer>5") == "<think>comments 0.00<answer>1"  # what it is told to say is no program with comments
    drawn = {judged(f"<answer>{TOLD}", seed=seed, error_rate=1.0)[-1] for seed in range(60)}
    assert drawn == set("12345")


def test_a_judge_of_something_else_is_one_line() -> None:
    with pytest.raises(UnknownName, match=r"preference \(the item's domain\) 'python'"):
        judged("<answer>x", "python")
    with pytest.raises(InputError, match="holds no response"):
        judged(None)
    with pytest.raises(InputError, match="not of source python_programs"):
        bare = Item(id="a", domain="d", prompt="?", answer="1", verifier="exact")
        OperatorSpec(name="styled_programs").resolve(DEMONSTRATOR)(bare, random.Random(0))
