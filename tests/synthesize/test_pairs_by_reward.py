"""Pairs by a reward model, and by simulated annotators: worked by hand, and against brute force."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from components.contract.errors import InputError
from components.contract.heads import LANGUAGE, SCORES
from components.contract.operators import OperatorSpec
from components.modeling.serving.models import Rater, Scorer
from components.synthesize.component import asks, heads
from components.synthesize.generators.annotated_pairs import preference
from components.synthesize.made import Dropped, Made
from components.synthesize.params import SynthesizeParams
from components.synthesize.slots import GENERATOR
from tests.synthesize.scripted import CONTEXT, item, scripted

SUM = item("a", "2 + 2 =", "4")
RATED: dict[str, float | None] = {"x": 1.0, "yy": -2.0, "zzz": 3.0, "long": 3.5, "same": 1.0}


class Table(Rater):
    """Rates by a table of texts; None for a text that is not in it."""

    def __init__(self, table: dict[str, float | None], name: str = "rm.model") -> None:
        self.table, self.name = table, name
        self.asked: list[Any] = []

    def rate(self, pairs: Sequence[tuple[Any, str]]) -> list[float | None]:
        self.asked += pairs
        return [self.table.get(text) for _, text in pairs]


def made(texts: Sequence[str | None], *tables: dict[str, float | None], **config: Any) -> list[Made | Dropped]:
    generator = OperatorSpec.model_validate({"name": "best_vs_worst_reward", "num_samples": len(texts), **config})
    models: Any = [Table(table, f"rm{at}.model") for at, table in enumerate(tables or (RATED,))]
    writers = replace(scripted(lambda asked, number: texts[number]), scorers=models)
    return list(generator.resolve(GENERATOR)([SUM], writers, CONTEXT))


def counts(rows: Sequence[Made | Dropped]) -> dict[str, int]:
    return dict(Counter(row.reason if isinstance(row, Dropped) else "made" for row in rows))


def pair(rows: Sequence[Made | Dropped]) -> tuple[str, str, float]:
    (row,) = [row for row in rows if isinstance(row, Made)]
    return row.extras["chosen"], row.extras["rejected"], row.extras["margin"]


def test_best_and_worst_by_reward_and_every_other_text_is_counted() -> None:
    rows = made(["x", None, "still...", " ", "yy", "x", "zzz", "unknown"])
    assert pair(rows) == ("zzz", "yy", 5.0)
    assert counts(rows) == {
        "refused": 1, "unfinished": 1, "unparsed": 1, "repeated": 1, "unscored": 1, "over_cap": 1, "made": 1,
    }  # fmt: skip
    (row,) = [row for row in rows if isinstance(row, Made)]
    assert row.extras["label_source"] == "rm0.model" and row.response is None


def test_rewards_of_several_models_are_their_mean_and_one_that_cannot_leaves_a_text_out() -> None:
    first: dict[str, float | None] = {"x": 1.0, "yy": 0.0, "zzz": 9.0}
    tables = first, {"x": -4.0, "yy": 0.0, "zzz": None}
    assert pair(made(["x", "yy", "zzz"], *tables)) == ("yy", "x", 1.5)


def test_length_costs_reward() -> None:
    assert pair(made(["zzz", "long", "yy"])) == ("long", "yy", 5.5)
    assert pair(made(["zzz", "long", "yy"], length_penalty=1.0)) == ("zzz", "yy", 4.0)


@pytest.mark.parametrize("config", [{}, {"min_gap": 2.5}])
def test_equal_rewards_and_small_gaps_give_no_pair(config: dict[str, float]) -> None:
    texts = ["x", "same", "zzz"] if config else ["x", "same"]
    assert counts(made(texts, **config)) == {"no_contrast": len(texts)}


def test_nothing_is_learnt_of_an_item_without_a_score() -> None:
    assert counts(made(["a", "b"])) == {"unscored": 2}


@given(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.floats(-9, 9)), min_size=1, max_size=8))
def test_no_other_pair_has_a_larger_gap(drawn: list[tuple[str, float]]) -> None:
    table: dict[str, float | None] = dict(drawn)
    rows = made([text for text, _ in drawn], table)
    values = [value for value in table.values() if value is not None]
    widest = max(one - other for one in values for other in values)
    assert sum(counts(rows).values()) == len(drawn) - (widest > 0)  # a pair counts as one
    if widest > 0:
        chosen, rejected, margin = pair(rows)
        assert margin == widest == (table[chosen] or 0.0) - (table[rejected] or 0.0)
    else:
        assert "made" not in counts(rows)


def test_an_endpoint_gives_no_rewards() -> None:
    class Endpoint(Scorer):
        name = "endpoint:big"

        def score(self, pairs: Sequence[tuple[str, str]]) -> list[None]:  # type: ignore[override]
            return []

    writers = replace(scripted(lambda asked, number: "xy"[number]), scorers=[Endpoint()])
    generator = OperatorSpec.model_validate({"name": "best_vs_worst_reward", "num_samples": 2})
    with pytest.raises(InputError, match="endpoint:big is an endpoint, which gives no rewards"):
        list(generator.resolve(GENERATOR)([SUM], writers, CONTEXT))


def test_the_stage_asks_for_a_reward_model() -> None:
    wants = SynthesizeParams.model_validate({"generator": "best_vs_worst_reward"})
    assert asks(wants)["scorers"] == ["generator 'best_vs_worst_reward'"] and heads(wants) == {"scorers": SCORES}
    rationales = {"name": "insert_rationales", "min_gain": 0.1}
    assert heads(SynthesizeParams.model_validate({"generator": rationales})) == {"scorers": LANGUAGE}


def annotated(texts: Sequence[str], *, seed: int = 3, name: str = "a", **config: Any) -> list[Made | Dropped]:
    generator = OperatorSpec.model_validate({"name": "annotated_pairs", "num_samples": len(texts), **config})
    writers = scripted(lambda asked, number: texts[number])
    context = replace(CONTEXT, seed=seed)
    return list(generator.resolve(GENERATOR)([item(name, "2 + 2 =", "4")], writers, context))


def test_an_annotator_without_noise_prefers_the_better_of_the_first_two() -> None:
    rows = annotated(["<answer>5", "<answer>5", "<answer>4", "<answer>6"], noise=0)
    assert counts(rows) == {"repeated": 1, "over_cap": 1, "made": 1}
    (row,) = [row for row in rows if isinstance(row, Made)]
    assert dict(row.extras) == {
        "quality": "scripted", "chosen": "<answer>4", "rejected": "<answer>5", "label_source": "annotator",
        "flipped": False,
    }  # fmt: skip
    assert counts(annotated(["<answer>5", "<answer>6"], noise=0)) == {"no_contrast": 2}
    assert counts(annotated(["<answer>4", "<answer>4"])) == {"repeated": 1, "no_contrast": 1}


@given(st.floats(-1, 1), st.floats(0.01, 2))
def test_preferences_are_bradley_and_terrys(gap: float, noise: float) -> None:
    better, worse = math.exp(gap / noise), 1.0
    assert preference(gap, noise) == pytest.approx(better / (better + worse))
    assert preference(gap, noise) + preference(-gap, noise) == pytest.approx(1)


def test_extreme_gaps_are_finite() -> None:
    assert (preference(1, 1e-9), preference(-1, 1e-9), preference(0, 1e-9)) == (1.0, pytest.approx(0.0), 0.5)
    assert (preference(0.1, 0), preference(-0.1, 0), preference(0, 0)) == (1.0, 0.0, 0.0)


def test_labels_are_wrong_as_often_as_the_noise_says() -> None:
    flipped = 0
    for number in range(600):
        rows = annotated(["<answer>5", "<answer>4"], name=f"n{number}", noise=1.0)
        (row,) = [row for row in rows if isinstance(row, Made)]
        flipped += row.extras["flipped"]
        assert row.extras["flipped"] is (row.extras["chosen"] == "<answer>5")
    wanted = 1 / (1 + math.e)  # a right and a wrong response differ by 1
    assert abs(flipped / 600 - wanted) < 4 * math.sqrt(wanted * (1 - wanted) / 600)


def test_labels_repeat_by_seed_and_item() -> None:
    texts = ["<answer>5", "<answer>6"]
    assert annotated(texts) == annotated(texts)
    sides = {str(annotated(texts, seed=seed)) for seed in range(12)}
    assert len(sides) == 2


def test_settings_out_of_range_are_refused() -> None:
    for bad in ({"name": "annotated_pairs", "noise": -1}, {"name": "best_vs_worst_reward", "min_gap": -1}):
        with pytest.raises((ValidationError, InputError), match="greater than or equal to 0"):
            OperatorSpec.model_validate(bad).resolve(GENERATOR)
