"""Pairs that prefer short responses: by hand, and against a search over all pairs of texts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from components.synthesize.generators.length_pairs import LengthPairsConfig, length_pairs
from components.synthesize.made import Dropped, Made
from components.tasks.verify import verify
from tests.synthesize.scripted import CONTEXT, item, scripted

SUM = item("a", "2 + 2 =", "4")


def made(texts: list[str | None], **config: object) -> list[Made | Dropped]:
    settings = LengthPairsConfig.model_validate({"num_samples": len(texts), **config})
    return list(length_pairs([SUM], scripted(lambda asked, number: texts[number]), CONTEXT, config=settings))


def test_the_shortest_right_one_against_longer_ones() -> None:
    short, longer = "<think>22<answer>4", "<think>2+2=4 4=4 2+2=4<answer>4"  # 18 and 31 characters
    near, wrong = "<think>2+2<answer>4", "<think>2+2=5<answer>5"  # 19 and 21
    found = made([longer, short, near, wrong, "<answer>5", short, None, "<think>..."])
    marks = {"quality": "scripted", "label_source": "numeric", "chosen": short}
    assert found == [
        Dropped("repeated"),
        Dropped("refused"),
        Dropped("unfinished"),
        Dropped("not_longer"),
        Dropped("wrong"),
        Made(SUM, None, {**marks, "rejected": longer, "margin": 31 / 18 - 1}),
        Made(SUM, None, {**marks, "rejected": wrong, "margin": 21 / 18 - 1}),
    ]
    assert sum(isinstance(row, Made) for row in made([longer, short, near, wrong], max_per_prompt=1)) == 1
    assert [row for row in made([longer, short, near, wrong], factor=1.0) if row == Dropped("not_longer")] == []


def test_without_a_right_response_there_is_nothing_to_prefer() -> None:
    assert made(["<answer>5", "<answer>55"]) == [Dropped("no_right")] * 2


TEXTS = st.lists(
    st.tuples(st.sampled_from(["4", "5"]), st.integers(0, 9)).map(
        lambda pair: f"<think>{'x' * pair[1]}<answer>{pair[0]}"
    ),
    min_size=1,
    max_size=8,
)


@given(TEXTS)
def test_agrees_with_a_search(texts: list[str]) -> None:
    right = [text for text in texts if verify(SUM, text).right]
    shortest = min(map(len, right)) if right else 0
    expected = {text for text in texts if right and len(text) > shortest * (1.5 if verify(SUM, text).right else 1.0)}
    pairs = [row for row in made(list(texts), max_per_prompt=9) if isinstance(row, Made)]
    assert {row.extras["rejected"] for row in pairs} == expected and len(pairs) == len(expected)
    assert all(len(row.extras["chosen"]) == shortest and row.extras["margin"] > 0 for row in pairs)
    dropped = made(list(texts), max_per_prompt=9)
    assert len(dropped) == len(texts) - (1 if pairs else 0) or not pairs
