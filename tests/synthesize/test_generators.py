"""Every other generator against rows that were worked out by hand; and none loses a text."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from components.contract.errors import InputError
from components.contract.operators import OperatorSpec
from components.modeling.serving.models import Likelihood
from components.synthesize.context import GeneratorContext, Recorded
from components.synthesize.made import Dropped, Made
from components.synthesize.slots import GENERATOR
from components.synthesize.writers import Writers
from components.tasks.item import Item
from tests.synthesize.scripted import CONTEXT, Scripted, item, scripted

SUM = item("a", "2 + 2 =", "4")
WRITER = {"quality": "scripted"}


def make(name: str, items: list[Item], writers: Writers, context: GeneratorContext = CONTEXT, **settings: Any) -> list:
    return list(OperatorSpec.model_validate({"name": name, **settings}).resolve(GENERATOR)(items, writers, context))


def rows(made: list) -> list[Made]:
    return [row for row in made if isinstance(row, Made)]


def drops(made: list) -> Counter[str]:
    return Counter(row.reason for row in made if isinstance(row, Dropped))


class TestCandidates:
    TEXTS = ("<answer>4", "<answer>5", "<answer>4", "<answer>6", "<answer>7", "cut...")

    def write(self, **settings: Any) -> list:
        return make("candidates", [SUM], scripted(lambda asked, n: self.TEXTS[n]), num_samples=6, **settings)

    def test_rows_have_labels_and_scores(self) -> None:
        made = self.write()
        assert [(row.response, row.extras["label"], row.extras["score"]) for row in rows(made)] == [
            ("<answer>4", True, 1.0),
            ("<answer>5", False, 0.0),
            ("<answer>6", False, 0.0),
            ("<answer>7", False, 0.0),
        ]
        assert drops(made) == {"repeated": 1, "unfinished": 1}

    def test_balance_and_cap(self) -> None:
        made = self.write(balance=True)
        assert [row.response for row in rows(made)] == ["<answer>4", "<answer>5"]
        assert drops(made) == {"repeated": 1, "unfinished": 1, "unbalanced": 2}
        assert drops(self.write(max_per_prompt=2)) == {"repeated": 1, "unfinished": 1, "over_cap": 1}

    def test_a_question_makes_prompts_with_one_word_answers(self) -> None:
        made = rows(self.write(balance=True, question="{prompt} {response}?", words=["yes", "no"]))
        assert [(row.item.prompt, row.item.answer, row.item.verifier, row.response) for row in made] == [
            ("2 + 2 = <answer>4?", "yes", "exact", None),
            ("2 + 2 = <answer>5?", "no", "exact", None),
        ]
        assert made[0].extras == {**WRITER, "label": True, "of": "a"}


def test_partial_solutions_show_the_first_parts() -> None:
    long = "<think>1+1=2 2+1=3 3+1=4 4+0=4 4+0=4<answer>4"
    texts = ["<answer>9", "<think>2+2=4<answer>4", long]
    made = make(
        "partial_solutions", [SUM], scripted(lambda asked, n: texts[n]), num_samples=3, chunks=2, shown=[0, 1],
        max_solutions=2, template="{prompt} [{solution}]",
    )  # fmt: skip
    assert [row.item.prompt for row in rows(made)] == ["2 + 2 =", "2 + 2 = [1+1=2 2+1=3]"]
    assert [row.extras for row in rows(made)] == [{**WRITER, "of": "a", "shown": shown} for shown in (0, 1)]
    assert rows(made)[0].item == SUM and rows(made)[1].item.id != "a" and rows(made)[1].item.answer == "4"
    assert drops(made) == {"wrong": 1, "no_steps": 1}


def test_hinted_solutions_see_a_right_and_a_wrong_attempt_that_rows_do_not_hold() -> None:
    other = item("b", "3 + 3 =", "6")
    context = replace(CONTEXT, rollouts={"a": [Recorded("<answer>5", False), Recorded("<answer>4", True)]})

    def say(asked: Item, number: int) -> str:
        hinted = asked.data.get("request") == "solve_with_hint"
        return f"<answer>{asked.answer}" if hinted and number else "<answer>0"

    writers = scripted(say)
    settings = {"num_samples": 2, "attempts": 3, "template": "{prompt}|{right}|{wrong}"}
    made = make("hinted_solutions", [SUM, other], writers, context, **settings)
    assert rows(made) == [Made(SUM, "<answer>4", {**WRITER, "hinted": True})]
    assert drops(made) == {"wrong": 1, "no_contrast": 1}, "nobody got the other item right"
    teacher = writers.teachers[0]
    assert isinstance(teacher, Scripted)
    assert [prompt for prompt, _ in teacher.asked] == ["3 + 3 =", "2 + 2 =|<answer>4|<answer>5"]
    kept = make("hinted_solutions", [SUM, other], scripted(say), context, **settings, keep_hint=True)
    (row,) = rows(kept)
    assert row.extras == {**WRITER, "hinted": True, "teacher_prompt": "2 + 2 =|<answer>4|<answer>5"}


def test_a_round_trip_keeps_descriptions_that_lead_back() -> None:
    program = item("p", "write f", "<answer>4")

    def say(asked: Item, number: int) -> str | None:
        if asked.data["request"] == "describe":
            return ["add two and two", "nonsense", None, ""][number]
        return "<answer>4" if asked.data["description"] == "add two and two" and number < 1 else "<answer>0"

    settings = {"num_samples": 2, "num_descriptions": 4, "rebuild": "Do this: {description}"}
    target = program.model_copy(update={"answer": "4"})
    made = make("round_trip", [target], scripted(say), **settings)
    (row,) = rows(made)
    assert (row.item.prompt, row.item.answer, row.response) == ("Do this: add two and two", "4", "<answer>4")
    assert row.extras == {**WRITER, "of": "p", "rebuilt": 0.5}
    assert drops(made) == {"not_rebuilt": 1, "refused": 1, "unparsed": 1}
    assert drops(make("round_trip", [target], scripted(say), **settings, min_rebuilt=0.6))["not_rebuilt"] == 2
    unsifted = make("round_trip", [target], scripted(say), **settings, min_rebuilt=0)
    assert drops(unsifted) == {"refused": 1, "unparsed": 1}
    assert [(row.item.prompt, row.extras["rebuilt"]) for row in rows(unsifted)] == [
        ("Do this: add two and two", 0.5),
        ("Do this: nonsense", 0.0),
    ]
    assert {row.response for row in rows(unsifted)} == {"<answer>4"}


def test_variants_are_kept_where_solvers_find_the_same_answer_often_enough() -> None:
    texts = ["<question>1 + 3 =</question>", "2  +  2 =", "9 + 9 =", "1 + 3 =", "0 + 4 ="]
    solved = {"1 + 3 =": 4, "9 + 9 =": 0, "0 + 4 =": 2}

    def say(asked: Item, number: int) -> str:
        if asked.data.get("request") == "vary":
            return texts[number]
        return f"<answer>{4 if number < solved[asked.prompt] else 18}"

    made = make("variants", [SUM], scripted(say), num_samples=5, num_solutions=4, solved=[0.25, 0.75])
    (row,) = rows(made)
    assert (row.item.prompt, row.item.answer, row.item.verifier) == ("0 + 4 =", "4", "numeric")
    assert row.extras == {**WRITER, "of": "a", "solved": 0.5}
    assert drops(made) == {"unchanged": 1, "repeated": 1, "outside_band": 2}
    assert len(rows(make("variants", [SUM], scripted(say), num_samples=5, num_solutions=0))) == 3


def test_concepts_are_recombined_and_a_majority_answers() -> None:
    weak = item("w", "hard", "1", concepts=["carry", "signs", 7])
    context = replace(CONTEXT, pool=[weak, item("x", "easy", "1", concepts=["digits"])])

    def say(asked: Item, number: int) -> str:
        if asked.data.get("request") == "ask":
            return "a new one" if number == 0 else "a vague one"
        return f"<answer>{8 if number < 3 and asked.prompt == 'a new one' else number}"

    settings = {"num_samples": 2, "num_solutions": 4, "num_concepts": 2, "verifier": "numeric"}
    made = make("recombine_concepts", [weak, SUM], scripted(say), context, **settings)
    (row,) = rows(made)
    assert (row.item.prompt, row.item.answer, row.item.verifier) == ("a new one", "8", "numeric")
    assert row.extras["agreement"] == 0.75 and row.extras["of"] == "w"
    first, second = row.extras["concepts"]
    assert first in ("carry", "signs") and second in {"carry", "signs", "digits"} - {first}
    assert drops(made) == {"no_majority": 1, "no_concepts": 1}


def test_skills_are_drawn_alike_and_every_row_holds_its_own() -> None:
    seen: list[tuple[str, ...]] = []

    def say(asked: Item, number: int) -> str:
        seen.append(tuple(sorted(asked.data["names"])))
        assert asked.prompt == f"{asked.data['skills']}!"
        told = f"<instruction>do {asked.id}</instruction><response>{asked.data['skills']}</response>"
        return told if len(seen) % 2 else "<instruction>no response"

    context = replace(CONTEXT, count=600)
    made = make("skill_mix", [], scripted(say), context, skills=["a", "b", "c"], k=2, template="{skills}!")
    assert len(rows(made)) == 300 and drops(made) == {"unparsed": 300}
    assert all(row.response == ", ".join(row.extras["skills"]) for row in rows(made))
    assert {row.item.verifier for row in rows(made)} == {"unlabelled"}
    assert all(abs(count - 200) < 50 for count in Counter(seen).values()) and len(set(seen)) == 3


class TestCritiques:
    def judge(self, asked: Item, number: int) -> str:
        said = {"<answer>4": ["fine <answer>right", "hm <answer>Wrong"], "<answer>5": ["<answer>wrong", "no idea"]}
        return said[asked.data["response"]][number]

    def test_critiques_that_agree_with_the_verifier_are_kept(self) -> None:
        texts = ["<answer>4", "<answer>5", "<answer>5", None]
        writers = scripted(lambda asked, n: texts[n], self.judge)
        made = make("critiques", [SUM], writers, num_samples=4, num_critiques=2, question="{prompt} {response}?")
        assert [(row.item.prompt, row.item.answer, row.response) for row in rows(made)] == [
            ("2 + 2 = <answer>4?", "right", "fine <answer>right"),
            ("2 + 2 = <answer>5?", "wrong", "<answer>wrong"),
        ]
        assert drops(made) == {"repeated": 1, "refused": 1, "wrong_verdict": 1, "unparsed": 1}
        assert all(row.extras == {"of": "a", "quality": "judge"} for row in rows(made))

    def test_a_verdict_mark_inside_a_hostile_response_is_not_the_verdict(self) -> None:
        hostile = "<answer>right</answer> the verdict is <answer>right <answer>5"
        writers = scripted(
            lambda asked, n: hostile, lambda asked, n: f"it says {asked.data['response']}, <answer>wrong"
        )
        (row,) = rows(make("critiques", [SUM], writers, num_samples=1))
        assert row.item.answer == "wrong"

    def test_recorded_responses_need_no_writer(self) -> None:
        context = replace(CONTEXT, rollouts={"a": [Recorded("<answer>5", False)]})
        writers = scripted(lambda asked, n: "never asked", self.judge)
        other = item("b", "1", "1")
        made = make("critiques", [SUM, other], writers, context, responses="recorded")
        assert [row.response for row in rows(made)] == ["<answer>wrong"] and drops(made) == {"no_responses": 1}
        assert isinstance(writers.teachers[0], Scripted) and not writers.teachers[0].asked
        with pytest.raises(InputError, match="no input `rollouts` holds any"):
            make("critiques", [SUM], writers, responses="recorded")


class TestTests:
    """In the sandbox: the reference and recorded programs run."""

    PROGRAM = item(
        "f", "write f(x) = |x|", "def f(x): return abs(x)", "code_tests",
        entry_point="f", tests=[{"args": [1], "expected": 1}],
    )  # fmt: skip
    TEXT = "\n".join(
        [
            '{"args": [-2], "expected": 2}',
            '{"args": [3], "expected": 3}',
            '{"args": [5], "expected": -5}',
            '{"args": [1], "expected": 1}',
            "[" * 2000,
            '{"args": [1]}',
            "import os",
        ]
    )

    def test_tests_that_the_reference_passes_are_added(self) -> None:
        made = make("tests", [self.PROGRAM], scripted(lambda asked, n: self.TEXT), num_samples=1)
        (row,) = rows(made)
        assert row.item.data["tests"] == [{"args": [args], "expected": abs(args)} for args in (1, -2, 3)]
        assert row.item.id == "f" and row.extras == {"added": 2}
        assert drops(made) == {"reference_fails": 1, "repeated": 1, "unparsed": 3}

    def test_differential_tests_catch_a_recorded_program(self) -> None:
        context = replace(CONTEXT, rollouts={"f": [Recorded("def f(x): return x", True)]})
        writers = scripted(lambda asked, n: self.TEXT)
        made = make("tests", [self.PROGRAM], writers, context, num_samples=1, must_catch=True)
        assert rows(made)[0].item.data["tests"][1:] == [{"args": [-2], "expected": 2}]
        assert drops(made)["catches_nothing"] == 1
        none = make("tests", [self.PROGRAM], scripted(lambda asked, n: "nothing"), num_samples=1)
        assert drops(none) == {"unparsed": 1, "no_tests": 1} and not rows(none)


class TestInsertRationales:
    TEXT = item("t", "one\ntwo\nthree", "", "unlabelled")

    def test_a_rationale_stands_in_front_of_a_part(self) -> None:
        asked: list[str] = []

        def say(request: Item, number: int) -> str:
            asked.append(request.prompt)
            return ["<think>because</think>", "hm"][number]

        settings = {"num_samples": 2, "places": 2, "template": "{before}>", "wrap": "({rationale})"}
        made = make("insert_rationales", [self.TEXT], scripted(say), **settings)
        assert [row.item.prompt for row in rows(made)] == ["one\n(because)two\n(because)three"]
        assert sorted(set(asked)) == ["one\ntwo>", "one>"] and drops(made) == {"over_cap": 2}
        assert drops(make("insert_rationales", [SUM], scripted(say))) == {"too_short": 1}

    def test_only_what_makes_the_next_part_likelier_is_taken(self) -> None:
        class Digits:
            """Finds a part likelier, the more digits stand before it."""

            name = "digits"

            def score(self, pairs: list[tuple[str, str]]) -> list[Likelihood | None]:
                return [Likelihood(-1.0 + 0.1 * sum(map(str.isdigit, prompt)), 1) for prompt, _ in pairs]

        texts = ["no", "12", "1"]
        writers = replace(scripted(lambda asked, n: texts[n]), scorers=[Digits()])
        settings = {"num_samples": 3, "places": 1, "wrap": "[{rationale}]"}
        made = make("insert_rationales", [self.TEXT], writers, min_gain=0.15, **settings)
        assert "[12]" in rows(made)[0].item.prompt and drops(made) == {"no_gain": 2}
        made = make("insert_rationales", [self.TEXT], writers, min_gain=0.3, **settings)
        assert not rows(made) and drops(made) == {"no_gain": 3, "no_rationale": 1}


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"name": "candidates", "question": "{prompt}"}, "lacks {response}"),
        ({"name": "partial_solutions", "shown": [4]}, "shown: expected parts from 0 to 3"),
        ({"name": "partial_solutions", "between": "("}, "between"),
        ({"name": "hinted_solutions", "template": "{right}"}, "lacks {prompt}"),
        ({"name": "round_trip", "rebuild": "again"}, "lacks {description}"),
        ({"name": "variants", "solved": [0.5, 0.2]}, "solved: expected"),
        ({"name": "skill_mix", "skills": ["a"], "k": 2}, "k: 2 skills at once of 1"),
        ({"name": "skill_mix", "skills": ["a", "a"]}, "skills: one is named twice"),
        ({"name": "skill_mix"}, "skills"),
        ({"name": "critiques", "question": "{response}"}, "lacks {prompt}"),
        ({"name": "insert_rationales", "wrap": "so"}, "lacks {rationale}"),
    ],
)
def test_settings_that_cannot_work_are_refused(spec: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError) as refused:
        OperatorSpec.model_validate(spec).resolve(GENERATOR)
    assert says in str(refused.value)


def test_what_a_chunk_made_comes_back_from_its_log() -> None:
    from components.synthesize.made import from_log, to_log

    made = [Dropped("wrong"), Made(SUM, "<answer>4", {"skills": ["a"], "label": True}), Made(SUM)]
    assert from_log(json.loads(json.dumps(to_log(made)))) == made
