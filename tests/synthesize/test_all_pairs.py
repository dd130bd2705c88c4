"""All pairs of a ranking: by hand, against a double loop, and with an annotator who errs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from components.synthesize.generators.all_pairs import AllPairsConfig, all_pairs
from components.synthesize.made import Dropped, Made
from components.tasks.item import Item
from components.tasks.verify import verify
from tests.synthesize.scripted import CONTEXT, item, scripted

NOTE = item("a", "note: b7 k2", "b7 then k2.", "notes", points=["b7", "k2"], max_words=6, praise="so good")
WHOLE, HALF, NONE = "<answer>b7 then k2.", "<answer>b7.", "<answer>so good"


def made(texts: list[str | None], items: list[Item] | None = None, **config: object) -> list[Made | Dropped]:
    settings = AllPairsConfig.model_validate({"num_samples": len(texts), **config})
    return list(all_pairs(items or [NOTE], scripted(lambda asked, number: texts[number]), CONTEXT, config=settings))


def sides(rows: list[Made | Dropped]) -> set[tuple[str, str, float]]:
    marks = (row.extras for row in rows if isinstance(row, Made))
    return {(pair["chosen"], pair["rejected"], pair["margin"]) for pair in marks}


def test_by_hand() -> None:
    found = made([HALF, WHOLE, None, NONE, WHOLE])
    assert sides(found) == {(WHOLE, HALF, 0.5), (WHOLE, NONE, 1.0), (HALF, NONE, 0.5)}
    assert [row for row in found if isinstance(row, Dropped)] == [Dropped("refused"), Dropped("repeated")]
    assert sides(made([HALF, WHOLE, NONE], take="ends", scale=4)) == {(WHOLE, NONE, 4.0)}
    assert made([WHOLE, "<answer>b7 and k2"]) == [Dropped("tied")] * 2
    assert made([WHOLE]) == [Dropped("no_contrast")]
    assert made([HALF, WHOLE, NONE], take="ends").count(Dropped("over_cap")) == 2
    with pytest.raises(ValidationError, match="take ends makes one pair"):
        AllPairsConfig(take="ends", max_per_prompt=3)
    capped = made([HALF, WHOLE, NONE], max_per_prompt=2)
    assert len(sides(capped)) == 2 and capped.count(Dropped("over_cap")) == 1


NOTES = st.lists(st.lists(st.sampled_from(["b7", "k2", "so"]), max_size=4).map(" ".join), min_size=1, max_size=6)


@given(NOTES)
def test_agrees_with_a_double_loop(notes: list[str]) -> None:
    texts = [f"<answer>{note}" for note in notes]
    score = {text: verify(NOTE, text).score for text in texts}
    expected = {(a, b, score[a] - score[b]) for a in texts for b in texts if score[a] > score[b]}
    assert sides(made(list(texts))) == expected


def test_an_annotator_errs_about_near_ties_and_seldom_about_clear_pairs() -> None:
    items = [NOTE.model_copy(update={"id": f"n{number}"}) for number in range(400)]
    rows = [row for row in made([WHOLE, HALF, NONE], items, noise=0.4) if isinstance(row, Made)]
    assert rows == [row for row in made([WHOLE, HALF, NONE], items, noise=0.4) if isinstance(row, Made)]
    score = {WHOLE: 1.0, HALF: 0.5, NONE: 0.0}
    gaps = [score[row.extras["chosen"]] - score[row.extras["rejected"]] for row in rows]
    assert len(rows) == 1200 and all(row.extras["margin"] > 0 for row in rows)
    near = [gap for gap in gaps if abs(gap) == 0.5]
    clear = [gap for gap in gaps if abs(gap) == 1.0]
    # a difference of two noises has deviation .57: half a point is .88 of it, a whole point 1.77
    assert sum(gap < 0 for gap in near) / len(near) == pytest.approx(0.188, abs=0.05)
    assert sum(gap < 0 for gap in clear) / len(clear) == pytest.approx(0.039, abs=0.03)


@pytest.mark.parametrize("config", [{"noise": -1}, {"scale": 0}, {"take": "some"}, {"max_per_prompt": 0}])
def test_bad_settings_are_refused(config: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        AllPairsConfig.model_validate(config)
