"""Keywords in any order, by hand, beside keywords in their order: a list of keywords satisfies only the one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from components.contract.errors import InputError
from tests.rl.build import batch_of, context, operator


def graded(name: str, texts: list[str], data: dict[str, Any]) -> list[float]:
    batch = batch_of([[0.0] * len(texts)])
    item = batch.prompts[0].item.model_copy(update={"data": data, "answer": "b7 then k2 then m9."})
    batch = replace(batch, texts=tuple(texts), prompts=(replace(batch.prompts[0], item=item),))
    return [round(value, 6) for value in operator("reward", name)(batch, context()).tolist()]


def test_order_and_repetition_do_not_matter_to_the_overlap() -> None:
    data = {"keywords": [[["b7", "k2", "m9"]]]}
    texts = ["b7, k2 and m9", "m9 k2 b7", "b7 b7 b7 k2 m9 m9", "k2", "none"]
    assert graded("keyword_overlap", texts, data) == [1.0, 1.0, 1.0, pytest.approx(1 / 3, abs=1e-6), 0.0]
    ordered = graded("keyword_order", texts, data)
    assert ordered == [1.0, pytest.approx(1 / 3, abs=1e-6), 0.5, pytest.approx(1 / 3, abs=1e-6), 0.0]


def test_the_best_alternative_of_each_point_counts() -> None:
    data = {"keywords": [[["b7", "k2"], ["m9"]], [["q1"]]]}
    assert graded("keyword_overlap", ["m9", "b7 q1", "q1"], data) == [0.5, 0.75, 0.5]


@pytest.mark.parametrize("points", [None, [], [[]], [["b7"]], [[[]]], [[[1]]]])
def test_an_item_without_key_points_is_told_in_a_line(points: Any) -> None:
    with pytest.raises(InputError, match=r"data.keywords of p0 is no list of key points"):
        graded("keyword_overlap", ["b7"], {"keywords": points})
