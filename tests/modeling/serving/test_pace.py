"""Rate limits: no minute has more than it may."""

from __future__ import annotations

import random

from components.modeling.serving.pace import MINUTE, Pace


def test_no_sliding_minute_has_more_requests_or_tokens_than_allowed() -> None:
    chance, pace, now = random.Random(5), Pace(7, 1000), 100.0
    begun = []
    for _ in range(200):
        now += chance.choice([0.0, 0.0, 1.0, 20.0])
        tokens = chance.randint(1, 400)
        begun.append((pace.reserve(tokens, now), tokens))
        assert begun[-1][0] >= now
    assert [at for at, _ in begun] == sorted(at for at, _ in begun)
    for at, _ in begun:
        inside = [tokens for other, tokens in begun if at - MINUTE < other <= at]
        assert len(inside) <= 7 and sum(inside) <= 1000


def test_a_request_larger_than_a_minute_waits_for_an_empty_one_and_no_limit_waits_for_nothing() -> None:
    pace = Pace(None, 100)
    assert [pace.reserve(50, 0.0), pace.reserve(500, 1.0), pace.reserve(1, 2.0)] == [0.0, 60.0, 120.0]
    free = Pace(None, None)
    assert [free.reserve(1e9, 3.0), free.reserve(1e9, 3.0)] == [3.0, 3.0]
