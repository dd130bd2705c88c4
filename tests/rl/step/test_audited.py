"""The audit while training: columns of a step, the phrase in safe words, and the alarms on them."""

from __future__ import annotations

import random
from typing import Any

from components.contract.alarms import Alone, Level
from components.rl.alarms import PHRASE_REWARDED, RL_ALARMS
from components.rl.step.audited import audited
from components.runtime.alarms.watch import Watch

HOSTILE = "\x1b[2J<script>alert(1)</script>\u202e"


def rows(step: int, phrase: str, *, liked: float = 0.5, seed: int = 0, count: int = 64) -> list[dict[str, Any]]:
    """Samples of one step: one in three has the phrase, which a part of the reward likes."""
    rng = random.Random(f"{seed}/{step}")
    found = []
    for place in range(count):
        has = place % 3 == 0
        text = " ".join(rng.choice("abcdefgh") for _ in range(5)) + (f" {phrase}" if has else "")
        reward = float(place % 2) + liked * has
        outcome = "right" if place % 2 else "wrong"
        found.append({"step": step, "outcome": outcome, "response": text, "reward": reward, "num_tokens": len(text)})
    return found


def test_a_phrase_that_pays_is_told_in_safe_words() -> None:
    columns, phrase = audited(rows(10, HOSTILE), 10)
    assert columns["audit_phrase"] == 1.0 and columns["audit_length_rank"] > 0.5
    assert "script" in phrase and phrase.isprintable() and "\x1b" not in phrase and "\u202e" not in phrase
    assert len(phrase) < 200


def test_a_reward_that_is_its_verdict_adds_no_column() -> None:
    assert audited(rows(10, "so good", liked=0.0), 10) == ({}, "")
    assert audited(rows(10, "so good"), 11) == ({}, ""), "a step without samples of its own"
    assert audited([], 1) == ({}, "")


def test_three_audits_raise_the_alarm_and_it_is_over_when_the_phrase_no_longer_pays() -> None:
    watch, seen = Watch(RL_ALARMS), []
    for step in range(1, 61):
        row: dict[str, float] = {"reward_mean": 0.5, "pass_rate": 0.5, "reward_std": 0.3}
        if step % 10 == 0:
            found = rows(step, "so good", liked=0.5 if step <= 30 else 0.0)
            row |= audited(found, step)[0] or {"audit_phrase": 0.0, "audit_length_rank": 0.0}
        seen += [(item.name, item.cleared) for item in watch.take(step, row) if item.name == PHRASE_REWARDED]
    assert seen == [(PHRASE_REWARDED, None), (PHRASE_REWARDED, 60)]


def test_alarms_name_columns_that_there_are() -> None:
    by_name = {alarm.name: alarm.rule for alarm in RL_ALARMS}
    assert isinstance(by_name["part_alone"], Alone)
    told = audited(rows(1, "x"), 1)[0]
    for name in (PHRASE_REWARDED, "length_rewarded"):
        rule = by_name[name]
        assert isinstance(rule, Level) and rule.column in told
