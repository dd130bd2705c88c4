"""Made worlds by hand: their interpreters, splits and verifiers, against values and references of our own."""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from fractions import Fraction
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.tasks.domains.worlds.beams import Beam
from components.tasks.domains.worlds.compositions import compositions
from components.tasks.domains.worlds.plans import (
    ALPHABET,
    MAX_STEPS,
    STEPS,
    NotExecutable,
    execute,
    read_plan,
    shortest_plan,
    type_of,
    write_value,
)
from components.tasks.domains.worlds.records import ENCODINGS, read_view, reconstruct, write_view
from components.tasks.domains.worlds.statements import KINDS, draw_statement
from components.tasks.domains.worlds.string_functions import FUNCTIONS, KEEPS_LENGTH, apply_function
from components.tasks.item import Item
from components.tasks.verify import Outcome, verify
from tests.tasks.test_worlds import items, write

# functions


@pytest.mark.parametrize(
    "name, given, result",
    [
        ("nxt", "ah", "ba"), ("prv", "ah", "hg"), ("two", "agh", "cab"), ("mir", "ah", "ha"), ("hlf", "abcde", "deabc"),
        ("mix", "abcde", "adbec"), ("odd", "abcde", "acebd"), ("con", "abce", "bc"), ("uniq", "abab", "ab"),
        ("end", "abc", "cba"), ("nbr", "abcde", "badce"), ("fst", "", ""), ("pal", "ab", "abba"),
    ],
)  # fmt: skip
def test_functions_by_hand(name: str, given: str, result: str) -> None:
    assert apply_function(name, given, 8) == result


@given(st.sampled_from(sorted(FUNCTIONS)), st.text("abcdefgh", max_size=9))
def test_functions_are_total_and_at_most_double(name: str, word: str) -> None:
    result = apply_function(name, word, 8)
    assert set(result) <= set("abcdefgh") and len(result) <= 2 * len(word) + 1
    assert name not in KEEPS_LENGTH or len(result) == len(word)


def test_definitions_are_shown_or_not_and_say_the_same_task() -> None:
    spec = {"name": "functions", "min_level": 2, "max_level": 3}
    for bare, shown in zip(items(spec, 30), items({**spec, "shown": True}, 30), strict=True):
        assert shown.prompt.endswith(f". {bare.prompt}") and shown.data["bare_prompt"] == bare.prompt
        assert shown.answer == bare.answer and len(bare.data["steps"]) == bare.data["level"]
        for name in bare.data["functions"]:
            assert f"{name}: " in shown.prompt


def test_held_out_functions_are_in_no_trained_call() -> None:
    spec = {"name": "functions", "max_level": 4}
    called = {
        include: {name for item in items({**spec, "include": include}, 300) for name in item.data["functions"]}
        for include in ("trained", "held_out", "all")
    }
    assert len(called["trained"]) == 17 and len(called["held_out"]) == 8
    assert not called["trained"] & called["held_out"] and called["all"] == called["trained"] | called["held_out"]


# biographies


def test_a_chain_followed_by_hand_ends_at_the_answer() -> None:
    base = {"name": "biographies", "people": 20}
    known = {}
    for item in items({**base, "task": "remembered"}, 600):
        name, relation = item.prompt.rstrip("?").split()
        assert known.setdefault((name, relation), item.answer) == item.answer != name
    for item in items({**base, "max_hops": 4, "distractors": 3}, 60, seed=9):
        *context, question = re.split(r"\. ", item.prompt)
        told = {tuple(fact.split()[:2]): fact.split()[2] for fact in context}
        at, *relations = question.rstrip("?").split()
        for relation in relations:
            at = known[at, relation] if relation < "N" else told[at, relation]
        assert at == item.answer
        assert any(relation < "N" for relation in relations) and any(relation >= "N" for relation in relations)


def test_the_four_splits_share_no_question_and_differ_in_their_chains() -> None:
    asked, chains = {}, {}
    for split in ("train", "iid", "composition", "zero_shot"):
        questions = [item.prompt.rpartition(". ")[2] for item in items({"name": "biographies", "split": split}, 500)]
        asked[split] = set(questions)
        chains[split] = {question.partition(" ")[2] for question in questions}
    for one, other in product(asked, repeat=2):
        assert one == other or not asked[one] & asked[other]
    assert chains["iid"] & chains["train"] and not chains["composition"] & chains["train"]
    seen = set(" ".join(chains["train"]))
    assert all(set(chain) <= seen for chain in chains["composition"])
    assert all(set(chain) - seen for chain in chains["zero_shot"])


def test_atoms_are_chains_of_one_kind() -> None:
    for task, kind in (("remembered", "ABCD"), ("told", "NOPQ")):
        rows = items({"name": "biographies", "task": task, "atom_hops": 3}, 200)
        found = [item.prompt.rpartition(". ")[2].rstrip("?").split()[1:] for item in rows]
        assert {len(chain) for chain in found} == {1, 2, 3} and set("".join(map("".join, found))) <= set(kind)
        assert all(item.data["hops"][-1].split()[2] == item.answer for item in rows)


# generators


def test_compositions_differ_as_functions_and_unseen_ones_stay_whatever_is_trained() -> None:
    found = compositions(8, 2, 4, 3, 0)
    every = ["".join(word) for word in product("abc", repeat=4)]
    tables = [tuple(apply_function(b, apply_function(a, word, 3), 3) for word in every) for a, b in found]
    assert len(set(tables)) == len(tables) > 15
    prompts = {}
    for count in (2, 8, 32):
        rules = {tuple(item.data["rules"]) for item in items({"name": "generators", "generators": count}, 600)}
        assert len(rules) == count
        unseen = items({"name": "generators", "generators": count, "include": "unseen"}, 200)
        prompts[count] = [item.prompt for item in unseen]
        assert not rules & {tuple(item.data["rules"]) for item in unseen}
    assert prompts[2] == prompts[8] == prompts[32]


def test_shirkers_stop_after_the_first_rule() -> None:
    for item in items({"name": "generators"}, 30):
        shirked = write(item, name="generators", shirk=1.0)
        assert shirked == f"<answer>{item.data['steps'][0]}" and not verify(item, shirked).right


# graded_choice


def test_neither_place_nor_rank_of_an_option_tells_the_answer() -> None:
    found = items({"name": "graded_choice"}, 2000)
    places = Counter(item.answer for item in found)
    ranks = Counter(
        sorted(map(int, item.data["options"])).index(int(item.data["options"]["ABCD".index(item.answer)]))
        for item in found
    )
    assert all(abs(count / 2000 - 0.25) < 0.05 for count in (*places.values(), *ranks.values())) and len(ranks) == 4
    grades = Counter(
        item.data["grade"] for item in items({"name": "graded_choice", "weights": [0, 0, 0, 0, 1, 3]}, 400)
    )
    assert set(grades) == {5, 6} and grades[6] > 2 * grades[5]
    for item in found[:50]:
        assert len(re.findall(r"\d+", item.data["question"])) == item.data["grade"]


# claims


@given(st.sampled_from(KINDS), st.integers(-40, 40), st.booleans(), st.integers(0, 1 << 30))
def test_statements_are_as_true_as_they_were_drawn(kind: Any, value: int, truth: bool, seed: int) -> None:
    statement = draw_statement(kind, value, truth, random.Random(seed))
    assert statement is None or statement.holds(value) == truth


def test_claims_come_in_whole_groups_half_of_them_true() -> None:
    found = items({"name": "claims"}, 900)
    assert 0.42 < sum(item.answer == "true" for item in found) / 900 < 0.58
    for start in range(0, 900, 3):
        group = found[start : start + 3]
        assert len({item.data["group"] for item in group}) == 1 and len({item.prompt for item in group}) == 3
    by_prompt = defaultdict(set)
    for item in found:
        by_prompt[item.prompt].add(item.answer)
        claim = item.prompt.removeprefix("claim: ")
        if re.fullmatch(r"[\d +-]+[=<>] -?\d+", claim):
            assert eval(claim.replace("=", "==")) == (item.answer == "true")  # our own claim, not a model's text
    assert all(len(answers) == 1 for answers in by_prompt.values())


# beams


def test_reactions_by_hand() -> None:
    assert Beam(0, 6, ((3, 2), (4, 5))).reactions() == (Fraction(8, 3), Fraction(13, 3))
    assert Beam(2, 4, ((2, 0),)).reactions() == (4, -2)  # the load hangs over to the left: the roller holds it down


@given(st.integers(0, 1 << 30), st.sampled_from(["ends", "moved"]))
@settings(max_examples=30)
def test_forces_and_moments_about_any_point_vanish(seed: int, supports: str) -> None:
    (item,) = items({"name": "beams", "supports": supports, "max_loads": 3}, 1, seed)
    left, right = map(Fraction, item.answer.split())
    data = item.data
    assert left + right == sum(size for size, _ in data["loads"])
    for point in (-3, 0, data["length"], 7):
        carried = left * (data["pin"] - point) + right * (data["roller"] - point)
        assert carried == sum(size * (place - point) for size, place in data["loads"])
    assert (supports == "ends") == ((data["pin"], data["roller"]) == (0, data["length"]))


@pytest.mark.parametrize(
    "text, settings, right",
    [
        ("8/3 13/3", {}, True), ("8/3, 13/3", {}, True), ("R_A = 8/3 P, R_B = 13/3P", {}, True),
        ("A=\\frac{8}{3} and B=\\frac{13}{3}", {}, True), ("13/3 8/3", {}, False),
        ("13/3 8/3", {"ordered": False}, True), ("2.6667 4.3333", {}, False), ("8/3", {}, False),
        ("2.6667 4.3333", {"tolerance": 1e-3}, True),
        ("8/3 13/3 0", {}, False), ("8/3 x", {}, False), ("", {}, False), ("8/3 13/0", {}, False),
    ],
)  # fmt: skip
def test_coefficients_by_hand(text: str, settings: dict[str, Any], right: bool) -> None:
    item = Item(id="c", domain="d", prompt="p", answer="8/3 13/3", verifier="coefficients", data={"settings": settings})
    assert verify(item, f"<answer>{text}").outcome is (Outcome.RIGHT if right else Outcome.WRONG)


# views


@given(st.sampled_from(sorted(ENCODINGS)), st.lists(st.integers(0, 6), min_size=1, max_size=9))
def test_a_view_says_its_whole_record(encoding: str, record: list[int]) -> None:
    text = write_view(encoding, tuple(record), 7)
    assert read_view(encoding, text, len(record), 7) == tuple(record)
    assert read_view(encoding, text[1:], len(record), 7) is None


def test_views_by_hand() -> None:
    assert reconstruct([(1, 2), (1, 3), (0, 2)]) == (1, 2)
    data = {"given": [2, None, 4], "values": 5, "encodings": ["digits", "letters", "backward"]}
    item = Item(id="v", domain="d", prompt="views: 2_4", answer="214 cbe 412", verifier="views", data=data)
    for text, score in [
        ("214 cbe 412", 1.0),
        ("234 cde 432", 1.0),  # another filling
        ("214 cbe 432", 8 / 9),
        ("114 bbe 411", 6 / 9),  # all agree, but not with what is stated
        ("214 cbe 41", 6 / 9),
        ("214 cbe", 0.0),
        ("214 cbe 412 412", 0.0),
        ("x y z", 0.0),
    ]:
        assert verify(item, f"<answer>{text}").score == pytest.approx(score), text


def test_listed_views_are_all_right_and_all_different() -> None:
    for item in items({"name": "views", "list_right": True}, 5):
        listed = item.data["right_responses"]
        assert len(set(listed)) == 25 and all(verify(item, response).right for response in listed)


# pipelines


@given(st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=MAX_STEPS), st.text("abcdefgh", max_size=6))
def test_a_plan_whose_types_fit_executes_and_each_value_has_its_type(plan: list[str], word: str) -> None:
    takes = ["word", *(STEPS[name].gives for name in plan)]
    fits = all(STEPS[name].takes == has for name, has in zip(plan, takes, strict=False))
    try:
        checked = read_plan(" ".join(plan))
    except NotExecutable:
        assert not fits
        return
    assert fits
    for name, value in zip(plan, execute(checked, word), strict=True):
        assert type_of(value) == STEPS[name].gives
        assert not isinstance(value, str) or set(value) <= set("abcdefgh"[:ALPHABET])


def test_no_shorter_plan_than_the_answer_solves_a_task() -> None:
    for item in items({"name": "pipelines", "max_steps": 3}, 25):
        words = [word for word, _ in item.data["cases"]]
        plan = item.answer.split()
        for length in range(1, len(plan)):
            for other in product(STEPS, repeat=length):
                try:
                    values = [write_value(execute(read_plan(" ".join(other)), word)[-1]) for word in words]
                except NotExecutable:
                    continue
                assert values != [value for _, value in item.data["cases"]], other
    assert shortest_plan(["ab"], ["ba"], 2) == ("rev",)


def test_any_plan_that_comes_out_is_right_and_part_of_the_cases_scores() -> None:
    item = Item(
        id="p", domain="d", prompt="abca>3 bb>1", answer="uniq len", verifier="plan",
        data={"cases": [["abca", "3"], ["bb", "1"]]},
    )  # fmt: skip
    for text, score in [
        ("uniq rev len", 1.0),
        ("uniq sort len", 1.0),
        ("uniq codes most", 0.5),
        ("len uniq", 0.0),
        ("", 0),
    ]:
        assert verify(item, f"<answer>{text}").score == score, text
    runs = item.model_copy(update={"data": {**item.data, "settings": {"want": "execution"}}})
    for text, outcome in [("rev", True), ("uniq codes most", True), ("len uniq", False), ("", False)]:
        assert verify(runs, f"<answer>{text}").right is outcome, text
    assert "step 2, uniq, takes a word and gets a number" in verify(item, "<answer>len uniq").detail
    assert "more than 8 steps" in verify(item, f"<answer>{'rev ' * 9}").detail
    broken = item.model_copy(update={"data": {"cases": [["a" * 1000, "1"]]}})
    assert verify(broken, "<answer>rev").failed
