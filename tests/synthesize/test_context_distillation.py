"""Context distillation against rows worked out by hand, and against rejection sampling with the prompts exchanged."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from components.contract.operators import OperatorSpec
from components.synthesize.generators.context_distillation import ContextDistillationConfig, context_distillation
from components.synthesize.generators.rejection import RejectionConfig, rejection
from components.synthesize.made import Dropped, Made
from components.tasks.item import Item, item_id
from components.tasks.verify import verify
from tests.synthesize.scripted import CONTEXT, Scripted, item, scripted
from tests.tasks.test_worlds import items

TOLD = item("a", "N: reverse the word. N(ab)", "ba", "exact", bare_prompt="N(ab)", level=1)


def test_the_writer_reads_the_definition_and_the_row_does_not_have_it() -> None:
    texts = ["<answer>ba", "<answer>ab", "<think>N(ab)=ba<answer>ba"]
    writers = scripted(lambda asked, number: texts[number])
    config = ContextDistillationConfig(num_samples=3)
    made = list(context_distillation([TOLD], writers, CONTEXT, config=config))
    assert made[0] == Dropped("wrong")
    rows = [row for row in made if isinstance(row, Made)]
    assert [row.response for row in rows] == ["<answer>ba", "<think>N(ab)=ba<answer>ba"]
    for row in rows:
        assert (row.item.prompt, row.item.answer, row.item.id) == ("N(ab)", "ba", item_id("d", "N(ab)", "ba"))
        assert row.extras == {"quality": "scripted", "of": "a"} and verify(row.item, row.response or "").right
    teacher = writers.teachers[0]
    assert isinstance(teacher, Scripted) and {prompt for prompt, _ in teacher.asked} == {TOLD.prompt}


def test_a_row_is_the_same_as_if_its_bare_prompt_had_always_been_there() -> None:
    """Source functions gives the same calls with and without definitions."""
    spec = {"name": "functions", "min_level": 1, "max_level": 2}
    shown, bare = items({**spec, "shown": True}, 12), items(spec, 12)
    ids = {asked.id: hidden.id for asked, hidden in zip(shown, bare, strict=True)}
    assert ids == {asked.id: item_id("d", str(asked.data["bare_prompt"]), asked.answer) for asked in shown}
    answers = {asked.id: asked.answer for asked in (*shown, *bare)}
    writers = scripted(lambda asked, number: f"<answer>{answers[asked.id]}{'a' * number}")
    told = context_distillation(shown, writers, CONTEXT, config=ContextDistillationConfig(num_samples=2))
    known = rejection(bare, writers, CONTEXT, config=RejectionConfig(num_samples=2))
    for one, other in zip(told, known, strict=True):
        if isinstance(one, Made) and isinstance(other, Made):
            assert (one.item, one.response) == (other.item, other.response)
        else:
            assert one == other == Dropped("wrong")


@given(st.lists(st.sampled_from(["N(ab)", "", "  ", None, 3, ["N(ab)"]]), max_size=6))
def test_what_has_no_bare_prompt_is_counted_and_not_asked(given: list[object]) -> None:
    found = [replace_id(TOLD, f"t{number}", bare) for number, bare in enumerate(given)]
    writers = scripted(lambda asked, number: "<answer>ba")
    config = ContextDistillationConfig(num_samples=1)
    made = list(context_distillation(found, writers, CONTEXT, config=config))
    there = given.count("N(ab)")
    assert made[: len(given) - there] == [Dropped("no_bare_prompt")] * (len(given) - there)
    assert len([row for row in made if isinstance(row, Made)]) == there


def replace_id(asked: Item, name: str, bare: object) -> Item:
    return asked.model_copy(update={"id": name, "data": {"bare_prompt": bare}})


def test_the_key_can_be_another() -> None:
    asked = item("a", "hint: 4. 2 + 2 =", "4", plain="2 + 2 =")
    spec = {"name": "context_distillation", "key": "plain", "num_samples": 1}
    (row,) = OperatorSpec.model_validate(spec).resolve("generator")(
        [asked], scripted(lambda asked, number: "<answer>4"), replace(CONTEXT, seed=1)
    )
    assert row.item.prompt == "2 + 2 ="
