"""Source and author of named rules, by hand; the author's questions go through the generator that asks for them."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.contract.errors import InputError
from components.contract.operators import OperatorSpec
from components.synthesize.asking import ask
from components.synthesize.context import GeneratorContext
from components.synthesize.made import Dropped, Made
from components.synthesize.writers import ProgramWriter, Writers
from components.tasks.demonstrators.worlds.concepts import MOST_RULES, solved
from components.tasks.item import Item
from components.tasks.verify import verify
from tests.tasks.test_worlds import items, write

RULES = ["rev", "nxt", "end"]


def of(prompt: str) -> Item:
    return Item(id="x", domain="d", prompt=prompt, answer="?", verifier="exact")


def test_rows_name_their_rules_by_hand() -> None:
    for item in items({"name": "concepts", "rules": ["rev", "nxt"], "letters": 5}, 40):
        first, second = item.data["concepts"]
        assert {first, second} == {"rev", "nxt"} and item.prompt == f"{first} {second}: {item.data['word']}"
        expected = "".join(chr(ord("a") + (ord(letter) - ord("a") + 1) % 5) for letter in item.data["word"][::-1])
        assert item.answer == item.data["steps"][1] == expected  # in either order


def test_every_row_asks_for_what_it_needs_in_either_place() -> None:
    places = Counter(
        item.data["concepts"].index("mir") for item in items({"name": "concepts", "rules": RULES, "need": ["mir"]}, 200)
    )
    assert set(places) == {0, 1} and min(places.values()) > 60
    others = items({"name": "concepts", "rules": RULES, "size": 3}, 50)
    assert all(sorted(item.data["concepts"]) == sorted(RULES) for item in others)


def test_the_author_reads_prompts_alone() -> None:
    assert write(of("rev nxt: abch"), name="concepts") == "<think>hcba<answer>adcb"
    assert write(of("rev: abch"), name="concepts") == "<answer>hcba"
    assert write(of("rev nxt: abch"), name="concepts", think=False) == "<answer>adcb"
    (item,) = items({"name": "concepts", "rules": RULES}, 1)
    wrong = write(item, name="concepts", error_rate=1.0)
    assert not verify(item, wrong).right and verify(item, write(item, name="concepts")).right


def test_mistaken_rules_are_applied_as_often_as_asked() -> None:
    assert write(of("rev mir: abch"), name="concepts", mistakes={"mir": "nxt"}) == "<think>hcba<answer>adcb"
    often = [write(of("mir: abch"), n, name="concepts", mistakes={"mir": "nxt"}, mistake_rate=0.7) for n in range(400)]
    assert set(often) == {"<answer>bcda", "<answer>hgfa"} and 240 < often.count("<answer>bcda") < 320
    with pytest.raises(InputError, match="no rule is called 'mirr'; did you mean 'mir'"):
        write(of("rev: ab"), name="concepts", mistakes={"mirr": "nxt"})


def test_a_request_is_answered_by_a_question_on_its_names() -> None:
    asked = ask(of("rev: abch"), "ask", "{concepts}", shown={"concepts": "nxt, end"}, names=["nxt", "end"])
    for seed in range(20):
        text = write(asked, seed, name="concepts", length=5)
        assert text.startswith("nxt end: ") and solved(text, 8) is not None and len(text) == len("nxt end: ") + 5
        unclear = write(asked, seed, name="concepts", unclear=1.0)
        assert "any" in unclear.split(": ")[0].split() and solved(unclear, 8) is None
    guesses = {write(of("any: abch"), seed, name="concepts") for seed in range(20)}
    assert len(guesses) > 15 and all(guess.startswith("<answer>") for guess in guesses)


@pytest.mark.parametrize(
    "prompt",
    [
        *(
            "",
            "rev",
            "rev:abch",
            "rev: ",
            "rev: ABC",
            "rev  nxt: ab",
            "dbl " * MOST_RULES + "dbl: ab",
            "rev: " + "a" * 65,
        ),
        *("\x00: \ud800", "rev: ab; import os", ": ab", "__class__: ab", "rev: abz"),
    ],
)
def test_what_is_no_question_is_not_solved(prompt: str) -> None:
    assert solved(prompt, 8) is None
    assert write(of(prompt), name="concepts").startswith("<answer>")


@given(st.text(max_size=40), st.integers(0, 99))
def test_any_text_gets_some_answer(prompt: str, seed: int) -> None:
    assert write(of(prompt), seed, name="concepts").count("<answer>") == 1


def test_the_author_writes_and_answers_for_the_generator_and_unclear_questions_find_no_majority() -> None:
    author = OperatorSpec.model_validate({"name": "concepts", "unclear": 0.5, "error_rate": 0.2}).resolve(
        "demonstrator"
    )
    generator = OperatorSpec.model_validate({"name": "recombine_concepts", "num_samples": 4, "template": "{concepts}"})
    weak = items({"name": "concepts", "rules": RULES, "need": ["mir"]}, 10)
    context = GeneratorContext(seed=3, count=0, pool=weak)
    made = list(generator.resolve("generator")(weak, Writers([ProgramWriter(author, "author")]), context))
    kept = [one for one in made if isinstance(one, Made)]
    assert len(made) == 40 and 10 < len(kept) < 30
    assert {one.reason for one in made if isinstance(one, Dropped)} == {"no_majority"}
    for one in kept:
        steps = solved(one.item.prompt, 8)
        assert steps is not None and one.item.answer == steps[-1]
        assert set(one.item.data["concepts"]) <= {*RULES, "mir"} and len(one.item.data["concepts"]) == 2
