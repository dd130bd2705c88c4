"""A judge's list of principles: edits by hand and by brute force, examples that fool it, and prompts that carry it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from components.contract.errors import InputError
from components.contract.operators import OperatorSpec
from components.synthesize.component import asks
from components.synthesize.edits import edited, errors_of, mask_of
from components.synthesize.made import Dropped, Made
from components.synthesize.params import SynthesizeParams
from components.synthesize.slots import GENERATOR
from components.tasks.item import Item
from components.tasks.principles import example, list_of, list_row
from components.tasks.rubric import Criterion, rubric_of
from tests.synthesize.scripted import CONTEXT, item, scripted

POINTS = {"name": "points", "verifier": {"name": "phrases", "key": "points"}, "of_item": True}
ORDER = {"name": "order", "verifier": {"name": "phrase_order", "key": "points"}, "of_item": True}
SHORT = {"name": "short", "verifier": {"name": "word_count", "most": 3}}
LONG = {"name": "long", "verifier": {"name": "word_count", "least": 3}}
NOTE = item("n", "note: b7 k2", "b7 then k2.", "notes", points=["b7", "k2"], max_words=6)


def rules(*principles: dict[str, Any]) -> Item:
    return list_row([Criterion.model_validate(one) for one in principles])


def taught(*told: tuple[str, bool]) -> list[Item]:
    return [
        NOTE.model_copy(update={"id": f"e{at}", "data": example(NOTE, text, good=good)})
        for at, (text, good) in enumerate(told)
    ]


def made(
    name: str,
    pool: Sequence[Item],
    *,
    items: Sequence[Item] | None = None,
    texts: Sequence[str | None] = (),
    **config: Any,
) -> list[Made | Dropped]:
    generator = OperatorSpec.model_validate({"name": name, **config})
    writers = scripted(lambda asked, number: texts[number])
    context = replace(CONTEXT, pool=pool)
    return list(generator.resolve(GENERATOR)(pool if items is None else items, writers, context))


def names(rows: Sequence[Made | Dropped]) -> list[str]:
    (row,) = rows
    assert isinstance(row, Made)
    return [one.name for one in list_of([row.item], "x")]


def told(rows: Sequence[Made | Dropped]) -> dict[str, Any]:
    (row,) = rows
    assert isinstance(row, Made)
    return dict(row.extras)


EXAMPLES = taught(("b7 k2", True), ("b7 then k2", True), ("k2 b7", False), ("b7 and k2 at last", False), ("b7", False))


def test_the_edit_that_mends_most_errors_by_hand() -> None:
    # points alone passes k2 b7, which order mends, and the long one, which short mends: the first in grammar counts
    pool = [rules(POINTS), *EXAMPLES]
    first = made("principles", pool, grammar=[LONG, ORDER, SHORT])
    assert names(first) == ["points", "order"]
    assert told(first) == {"edit": "added order", "errors_before": 2, "errors": 1, "num_examples": 5}
    both = made("principles", pool, grammar=[LONG, ORDER, SHORT], edits=5)
    assert names(both) == ["points", "order", "short"] and told(both)["edit"] == "added order, added short"
    assert told(both)["errors"] == 0


def test_a_wrong_principle_is_replaced_or_removed() -> None:
    pool = [rules(POINTS, LONG), *EXAMPLES[:2], EXAMPLES[3]]  # long refuses b7 k2, and passes the last one
    replaced = made("principles", pool, grammar=[SHORT])
    assert names(replaced) == ["points", "short"] and told(replaced)["edit"] == "replaced long by short"
    removed = made("principles", [rules(POINTS, LONG), *taught(("b7 k2", True), ("b7", False))], grammar=[POINTS])
    assert names(removed) == ["points"] and told(removed)["edit"] == "removed long"


def test_an_edit_must_mend_enough_and_a_full_list_grows_no_more() -> None:
    pool = [rules(POINTS), *EXAMPLES]
    fewer: tuple[dict[str, Any], ...] = ({"min_gain": 0.21}, {"grammar": [LONG]})
    for few in fewer:
        rows = made("principles", pool, **{"grammar": [ORDER, SHORT], **few})
        assert names(rows) == ["points"]
        assert told(rows) == {"edit": "none", "errors_before": 2, "errors": 2, "num_examples": 5}
    assert names(made("principles", pool, grammar=[ORDER, SHORT], min_gain=0.2)) == ["points", "order"]
    assert names(made("principles", pool, grammar=[ORDER, SHORT], most=1)) == ["points"]


MARKS = st.lists(st.tuples(*[st.booleans()] * 5), min_size=1, max_size=9)


@given(MARKS, st.sets(st.sampled_from("abcd"), min_size=1), st.integers(1, 3), st.integers(1, 4))
def test_no_single_edit_has_fewer_errors(marks: list[tuple[bool, ...]], start: set[str], least: int, most: int) -> None:
    """Against all lists that differ by one principle, judged example by example."""
    now, good = tuple(sorted(start)), [row[4] for row in marks]

    def wrong(names: Sequence[str]) -> int:
        return sum(all(row["abcd".index(name)] for name in names) != row[4] for row in marks)

    masks = {name: mask_of([row[at] for row in marks]) for at, name in enumerate("abcd")}
    found = edited(now, masks, mask_of(good), len(marks), least=least, most=most)
    near = [
        other
        for bits in range(1, 16)
        if (other := {name for at, name in enumerate("abcd") if bits >> at & 1})
        and len(other - start) <= 1
        and len(start - other) <= 1
        and (len(other) <= len(start) or len(start) < most)
    ]
    best = min(wrong(sorted(one)) for one in near)
    assert errors_of(now, masks, mask_of(good), len(marks)) == wrong(now)
    assert found.errors == wrong(found.names) == (best if wrong(now) - best >= least else wrong(now))
    assert bool(found.told) == (found.names != now)


def test_a_list_begins_from_settings_alone() -> None:
    rows = made("principles", [], start=[POINTS, SHORT])
    assert names(rows) == ["points", "short"] and told(rows) == {}
    params = {"generator": {"name": "principles", "start": [POINTS]}}
    with pytest.raises((ValidationError, InputError), match="makes rows without end: set `size`"):
        SynthesizeParams.model_validate(params)
    assert asks(SynthesizeParams.model_validate({**params, "size": 1})) == {}


def test_one_chunk_of_several_edits_by_all_examples() -> None:
    pool = [rules(POINTS), *EXAMPLES]
    assert names(made("principles", pool, items=pool[:2], grammar=[ORDER])) == ["points", "order"]
    assert made("principles", pool, items=pool[2:], grammar=[ORDER]) == []


def test_settings_and_inputs_that_make_no_list_are_refused() -> None:
    for bad, message in (
        ({}, "give one of them"),
        ({"start": [POINTS], "grammar": [ORDER]}, "give one of them"),
        ({"grammar": [{**SHORT, "veto": True}]}, "principle short: it holds or does not, and has no veto"),
        ({"start": [SHORT, SHORT]}, "principle short is there twice"),
        ({"start": [{"name": "a", "verifier": "exct"}]}, "did you mean 'exact'"),
    ):
        with pytest.raises((ValidationError, InputError), match=message):
            SynthesizeParams.model_validate({"generator": {"name": "principles", **bad}, "size": 1})
    with pytest.raises(InputError, match="generator principles: no example among the inputs"):
        made("principles", [rules(POINTS)], grammar=[ORDER])
    other = {**SHORT, "verifier": {"name": "word_count", "most": 9}}
    with pytest.raises(InputError, match="principle short of the inputs' list is another one than that of grammar"):
        made("principles", [rules(POINTS, SHORT), *EXAMPLES], grammar=[other])


TEXTS = ["b7 then k2.", "k2 then b7.", "b7", "b7 then k2 b7", "b7 then k2.", None]


def test_what_fools_the_list_beside_what_is_good() -> None:
    rows = made("judge_attacks", [rules(POINTS), NOTE], texts=TEXTS, num_samples=6, max_per_prompt=2)
    reasons = Counter(row.reason for row in rows if isinstance(row, Dropped))
    assert reasons == {"repeated": 1, "refused": 1, "caught": 1}  # b7 alone is caught
    found = [row for row in rows if isinstance(row, Made)]
    assert [(row.response, row.extras["label"]) for row in found] == [
        ("b7 then k2.", True), ("k2 then b7.", False), ("b7 then k2 b7", False),
    ]  # fmt: skip
    assert [row.item.data["response"] for row in found] == [row.response for row in found]
    assert len({row.item.id for row in found}) == 3, "examples of several rounds stand side by side"
    better = made("judge_attacks", [rules(POINTS, ORDER), NOTE], texts=TEXTS, num_samples=6, max_per_prompt=2)
    assert [row.response for row in better if isinstance(row, Made)] == ["b7 then k2.", "b7 then k2 b7"]


def test_examples_are_read_back_and_edit_the_list() -> None:
    rows = made("judge_attacks", [rules(POINTS), NOTE], texts=TEXTS, num_samples=6, max_per_prompt=2)
    examples = [Item.model_validate(json.loads(json.dumps(row.item.row()))) for row in rows if isinstance(row, Made)]
    assert names(made("principles", [rules(POINTS), *examples], grammar=[ORDER])) == ["points", "order"]


def test_labels_err_as_often_as_asked() -> None:
    tasks = [NOTE.model_copy(update={"id": f"n{at}"}) for at in range(600)]
    rows = made("judge_attacks", [rules(POINTS), *tasks], texts=TEXTS, label_error=0.2)
    flipped = [row.extras["flipped"] for row in rows if isinstance(row, Made)]
    assert sum(flipped) / len(flipped) == pytest.approx(0.2, abs=0.04)
    labels = [(row.extras["label"], row.response == "b7 then k2.") for row in rows if isinstance(row, Made)]
    assert [label != right for label, right in labels] == flipped


def test_pairs_hold_the_list_and_are_chosen_by_no_list() -> None:
    settings: dict[str, Any] = {"texts": TEXTS, "num_samples": 4, "rows": "pairs", "keep": "all"}
    both = [made("judge_attacks", [rules(*one), NOTE], **settings) for one in ((POINTS,), (POINTS, ORDER))]
    for rows, count in zip(both, (1, 2), strict=True):
        assert [row.reason for row in rows if isinstance(row, Dropped)] == ["over_cap", "over_cap"]
        (row,) = [row for row in rows if isinstance(row, Made)]
        assert (row.extras["chosen"], row.extras["rejected"]) == ("b7 then k2.", "k2 then b7.")
        rubric = rubric_of(row.item, "rubric")
        assert rubric and len(rubric.criteria) == count and all(one.veto for one in rubric.criteria)
    lone = made("judge_attacks", [rules(POINTS), NOTE], texts=["b7"], num_samples=1, rows="pairs", keep="all")
    assert lone == [Dropped("no_contrast")]
    with pytest.raises((ValidationError, InputError), match="label_error: pairs measure a list"):
        made("judge_attacks", [rules(POINTS), NOTE], rows="pairs", label_error=0.1)


def test_prompts_carry_the_list_and_nothing_else_is_written() -> None:
    pool = [NOTE, rules(POINTS, SHORT), *EXAMPLES]
    (row,) = made("ruled_prompts", pool)
    assert isinstance(row, Made) and (row.item.id, row.response) == ("n", None)
    rubric = rubric_of(row.item, "rubric")
    assert rubric and [(one.name, one.veto) for one in rubric.criteria] == [("points", True), ("short", True)]
    assert row.item.data["points"] == ["b7", "k2"] and "rubric" not in NOTE.data
    for name in ("ruled_prompts", "judge_attacks"):
        with pytest.raises(InputError, match=f"generator {name}: 0 lists of principles among the inputs"):
            made(name, [NOTE], texts=TEXTS)
