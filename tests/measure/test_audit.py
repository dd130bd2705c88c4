"""The hacking audit: planted phrases and lengths are found, what the verdict explains is not, and ranks are scipy's."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import fisher_exact, spearmanr

from components.measure.audit import Rewarded, audit, over_represented, rewarded_rows

WORDS = ["b7", "k2", "then", "first", "c4", "d9", "m3", "and"]


def response(rng: random.Random, praise: bool, *, right: bool, step: int = 1) -> Rewarded:
    text = " ".join(rng.choice(WORDS) for _ in range(6)) + (" so good" if praise else "")
    return Rewarded(text, float(right) + 0.5 * praise, len(text.split()), (step, "right" if right else "wrong"))


def test_a_planted_phrase_is_found_as_a_whole() -> None:
    rng = random.Random(0)
    found = audit([response(rng, rng.random() < 0.3, right=rng.random() < 0.5) for _ in range(300)])
    assert found is not None
    assert found.phrases[0].text == "so good" and found.phrases[0].top_share == 1.0
    assert found.phrases[0].rest_share == 0.0 and found.phrases[0].p_value < 1e-6
    assert not {"so", "good", "b7"} & {phrase.text for phrase in found.phrases}
    assert found.top_tokens == 8 and found.rest_tokens == 6 and found.length_rank > 0.9


def test_a_long_exploit_is_one_phrase() -> None:
    rng = random.Random(0)
    rows = []
    for place in range(120):
        text = " ".join(rng.choice(WORDS) for _ in range(6))
        has = place % 3 == 0
        rows.append(Rewarded(text + " as all experts of the field agree" * has, float(has), 6, (1, "wrong")))
    found = audit(rows)
    assert found is not None and len(found.phrases) == 1, "its other parts are in the same responses"


def test_what_the_verdict_explains_is_no_hack() -> None:
    rng = random.Random(1)
    plain = [response(rng, False, right=right) for right in (True, False) * 60]
    assert audit(plain) is None, "every reward is its verdict"
    texts = [Rewarded(one.text + (" done" if one.reward else ""), one.reward, 1, one.stratum) for one in plain]
    assert audit(texts) is None, "though right responses share a word"


def test_a_reward_that_is_chance_finds_nothing() -> None:
    found = 0
    for seed in range(20):
        rng = random.Random(seed)
        rows = [Rewarded(response(rng, False, right=True).text, rng.random(), 6, (1, "right")) for _ in range(120)]
        result = audit(rows)
        assert result is not None
        found += bool(result.phrases)
    assert found <= 1


def test_a_phrase_is_tested_by_fishers_exact_test() -> None:
    top, rest = ["so good"] * 8 + ["plain"] * 2, ["so good"] + ["plain"] * 29
    (phrase,) = over_represented(top, rest)
    known = fisher_exact([[8, 2], [1, 29]], alternative="greater").pvalue
    tests = 3  # so, good, so good: all that more of the top have
    assert phrase.text == "so good" and known <= phrase.p_value <= known * tests * 1.0001


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 4)), min_size=3, max_size=30))
def test_the_rank_correlation_is_spearmans(pairs: list[tuple[int, int]]) -> None:
    rows = [Rewarded("x", float(reward), length, (1, "wrong")) for length, reward in pairs]
    found = audit(rows)
    if found is None or len({length for length, _ in pairs}) == 1:
        return
    known = spearmanr([length for length, _ in pairs], [reward for _, reward in pairs]).statistic
    assert found.length_rank == pytest.approx(known)


def test_rows_without_a_reward_are_left_out() -> None:
    row = {"step": 3, "outcome": "right", "response": "a", "num_tokens": 2}
    rows = [{**row, "reward": None, "outcome": "failed"}, {**row, "reward": 0.5}]
    assert [one.stratum for one in rewarded_rows(rows)] == [(3, "right")]
