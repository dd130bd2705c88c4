"""Metric record_diversity: by hand, and against the entropy of scipy."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import entropy

from components.measure.outcomes import ItemOutcomes
from components.tasks.domains.worlds.records import write_view
from components.tasks.item import Item
from components.tasks.verify import verify
from tests.measure.test_refusal import measured

NAMES = ["digits", "letters", "backward"]


def drawn(*responses: str, given_fields: tuple[int | None, ...] = (2, None, 4)) -> ItemOutcomes:
    data = {"given": list(given_fields), "values": 5, "encodings": NAMES}
    item = Item(id="a", domain="d", prompt="views: 2_4", answer="214 cbe 412", verifier="views", data=data)
    count = len(responses)
    verdicts = tuple(verify(item, text) for text in responses)
    return ItemOutcomes(item, responses, verdicts, (1,) * count, (0.0,) * count, (0.0,) * count, (True,) * count)


def diversity(outcomes: ItemOutcomes) -> float | None:
    (found,) = measured("record_diversity", outcomes)["record_diversity"]
    return found


def test_by_hand() -> None:
    one, other = "<answer>214 cbe 412", "<answer>234 cde 432"
    assert diversity(drawn(one, one)) == 0.0 and diversity(drawn(one, other)) == pytest.approx(1.0)
    assert diversity(drawn(one, "<answer>224 cbe 412")) == 0.0, "an error in one of three views is no variety"
    assert diversity(drawn(one, one, one, other)) == pytest.approx(0.5623 / math.log(4), abs=1e-4)
    assert diversity(drawn(one, other, "<answer>nothing")) == pytest.approx(1.0), "what cannot be read is left out"
    assert diversity(drawn("", "x y z")) is None and diversity(drawn(one)) is None
    assert diversity(drawn(one, other, given_fields=(2, 1, 4))) is None, "nothing may vary"
    foreign = drawn(one, other)
    item = foreign.item.model_copy(update={"verifier": "exact"})
    assert diversity(ItemOutcomes(item, *list(vars(foreign).values())[1:8])) is None


@given(st.lists(st.integers(0, 4), min_size=2, max_size=30))
def test_agrees_with_scipy(fills: list[int]) -> None:
    texts = ["<answer>" + " ".join(write_view(name, (2, fill, 4), 5) for name in NAMES) for fill in fills]
    most = min(math.log(len(fills)), math.log(5))
    assert diversity(drawn(*texts)) == pytest.approx(float(entropy(list(Counter(fills).values()))) / most)
