"""Pairs by tests and by likelihood, and benches that a writer repairs: by hand and by brute force."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.contract.errors import InputError
from components.contract.operators import OperatorSpec
from components.modeling.serving.models import Likelihood, Scorer
from components.synthesize.component import asks
from components.synthesize.made import Dropped, Made
from components.synthesize.params import SynthesizeParams
from components.synthesize.slots import GENERATOR
from components.tasks.item import Item
from components.tasks.verify import verify
from tests.synthesize.scripted import CONTEXT, Scripted, item, scripted

BENCH = ["000 0", "010 1", "100 1", "110 0"]
XOR = item("x", "xor a b", "a^b", "circuits", names="abc", table="00111100", bench=BENCH)


class Likely(Scorer):
    """Finds a text the likelier the longer it is; cannot score one with a question mark."""

    name = "sft.model"

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[Likelihood | None]:
        return [None if "?" in text else Likelihood(-1 / len(text), 1) for _, text in pairs]


def made(texts: Sequence[str | None], *, of: Item = XOR, **config: Any) -> list[Made | Dropped]:
    spec = {"name": "score_pairs", "num_samples": len(texts), "verifier": "bench_points", **config}
    writers = replace(scripted(lambda asked, number: texts[number]), scorers=[Likely()])
    return list(OperatorSpec.model_validate(spec).resolve(GENERATOR)([of], writers, CONTEXT))


def counts(rows: Sequence[Made | Dropped]) -> dict[str, int]:
    return dict(Counter(row.reason if isinstance(row, Dropped) else "made" for row in rows))


def pair(rows: Sequence[Made | Dropped]) -> dict[str, Any]:
    (row,) = [row for row in rows if isinstance(row, Made)]
    assert row.item == XOR and row.response is None
    return dict(row.extras)


def test_the_best_before_the_worst_that_runs() -> None:
    # a|b fails 110 alone, ~(a^b) fails all, a& does not compile
    rows = made(["a|b", "a^b", "~(a^b)", "a&", "a^b", None, "a^..."], min_gap=0.2)
    assert pair(rows) == {
        "quality": "scripted", "chosen": "a^b", "rejected": "~(a^b)", "margin": 1.0, "label_source": "bench_points",
    }  # fmt: skip
    assert counts(rows) == {"made": 1, "over_cap": 2, "repeated": 1, "refused": 1, "unfinished": 1}
    assert pair(made(["a^b", "a|b", "a&"], min_gap=0.2))["rejected"] == "a|b"
    assert pair(made(["a^b", "a|b", "a&"], min_gap=0.2, prefer_running=False))["rejected"] == "a&"


def test_ties_small_gaps_and_near_copies_give_no_pair() -> None:
    assert counts(made(["a^b", "b^a"])) == {"no_contrast": 2}
    assert counts(made(["a^b", "a|b"], min_gap=0.3)) == {"no_contrast": 2}
    assert counts(made(["a^b", "a&b"], max_similarity=0.6)) == {"no_contrast": 2}
    assert counts(made(["a^b", "a&b"], max_similarity=0.7))["made"] == 1  # 2 of 3 characters in common


def test_the_item_s_own_verifier_scores_where_none_is_named() -> None:
    weak = XOR.model_copy(update={"data": {**XOR.data, "bench": ["000 0", "010 1"]}})
    assert counts(made(["a^b", "a|b"], of=weak, min_gap=0.2)) == {"no_contrast": 2}
    rows = made(["a^b", "a|b"], min_gap=0.2, verifier=None)
    assert pair(rows)["label_source"] == "circuits" and pair(rows)["margin"] == 0.25


def test_likelihood_reads_no_test() -> None:
    rows = made(["a|b", "a^b&c|d", "a^b", "?"], by="likelihood")
    assert (pair(rows)["chosen"], pair(rows)["rejected"]) == ("a^b&c|d", "a|b")
    assert pair(rows)["label_source"] == "likelihood" and pair(rows)["margin"] == pytest.approx(1 / 3 - 1 / 7)
    assert counts(rows) == {"made": 1, "over_cap": 1, "unscored": 1}


TEXTS = ["a^b", "a|b", "a&b", "~a", "b", "a&", "~(a^b)", "a^b^c", "q"]


@given(st.lists(st.sampled_from(TEXTS), min_size=1, max_size=6, unique=True), st.sampled_from([0.2, 0.3, 0.6]))
def test_no_pair_breaks_its_conditions_and_none_is_missed(texts: list[str], gap: float) -> None:
    bench = XOR.model_copy(update={"verifier": "bench_points"})
    score = {text: verify(bench, text).score for text in texts}
    fits = [
        (one, other)
        for one, other in product(texts, texts)
        if score[one] == max(score.values()) and score[one] - score[other] >= gap
        and SequenceMatcher(None, one, other, autojunk=False).ratio() <= 0.95
    ]  # fmt: skip
    rows = made(texts, min_gap=gap)
    assert ("made" in counts(rows)) is bool(fits)
    if fits:
        found = pair(rows)
        assert (found["chosen"], found["rejected"]) in fits
        assert found["margin"] == score[found["chosen"]] - score[found["rejected"]]


def test_likelihood_asks_a_scorer_and_tests_do_not() -> None:
    assert "scorers" not in asks(SynthesizeParams.model_validate({"generator": "score_pairs"}))
    wants = SynthesizeParams.model_validate({"generator": {"name": "score_pairs", "by": "likelihood"}})
    assert asks(wants)["scorers"] == ["generator 'score_pairs'"]


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"name": "score_pairs", "min_gap": 0}, "min_gap"),
        ({"name": "score_pairs", "verifier": "bench_pointz"}, "did you mean 'bench_points'"),
        ({"name": "testbench", "bench": "{answer}"}, "lacks {points}"),
        ({"name": "testbench", "repair": "{answer}{bench}"}, "lacks {log}"),
        ({"name": "testbench", "min_coverage": 2}, "min_coverage"),
    ],
)
def test_settings_that_make_no_sense_are_refused(spec: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        OperatorSpec.model_validate(spec).resolve(GENERATOR)


class Engineer(Scripted):
    """Says a text by the kind of request, and the n-th bench or repair in turn."""

    def __init__(self, points: str | None, *benches: str) -> None:
        self.left = list(benches)
        super().__init__(lambda asked, _: points if asked.data["request"] == "points" else self.left.pop(0))


def bench_of(engineer: Engineer, *, of: Item = XOR, **config: Any) -> list[Made | Dropped]:
    spec = OperatorSpec.model_validate({"name": "testbench", "num_samples": 1, **config})
    writers = replace(scripted(lambda asked, number: None), teachers=[engineer])
    return list(spec.resolve(GENERATOR)([of], writers, CONTEXT))


def test_a_bench_is_repaired_by_the_simulator_s_log() -> None:
    engineer = Engineer("000\n010\n110\nnonsense", "000 0\n010 0\n110 0", "000 0\n010 1\n110 0")
    (row,) = bench_of(engineer, min_coverage=0.8)
    assert isinstance(row, Made) and row.extras == {"points": 3}
    assert row.item.data["bench"] == ["000 0", "010 1", "110 0"] and row.item.verifier == "circuits"
    assert row.item.id == XOR.id and row.response is None
    last = engineer.asked[-1][0]
    assert "line 2: 010 gives 1, the bench expects 0" in last and "nonsense" not in last


def test_what_cannot_be_repaired_or_covers_too_little_is_dropped() -> None:
    assert bench_of(Engineer("000", *["000 1"] * 3), repair_rounds=2) == [Dropped("reference_fails")]
    assert bench_of(Engineer("000", "000 0")) == [Dropped("uncovered")]
    assert bench_of(Engineer("zzz")) == [Dropped("no_tests")]
    assert bench_of(Engineer(None)) == [Dropped("refused")]
    assert bench_of(Engineer("000", "000...")) == [Dropped("unfinished")]
    other = item("n", "2+2", "4")
    assert bench_of(Engineer("000"), of=other) == [Dropped("not_a_circuit")]


def test_a_weak_bench_has_the_first_points_alone() -> None:
    (row,) = bench_of(Engineer("110\n000\n010", "110 0\n000 0"), max_points=2, min_coverage=0)
    assert isinstance(row, Made) and row.item.data["bench"] == ["110 0", "000 0"]
