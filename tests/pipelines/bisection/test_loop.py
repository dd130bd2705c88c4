"""A bisection on made values: seeds are added until a half is decided, and everything that stays open is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from components.contract.errors import InputError
from pipelines.bisection.bisect import Bisection
from pipelines.bisection.differences import Difference, Part
from pipelines.bisection.oracle import looks_of
from pipelines.bisection.plain import cause_lines, found_json, numbers, tried_row
from pipelines.bisection.search import Set, Verdict
from pipelines.bisection.trials import HalfFailed, Measurement

Value = Callable[[Set, int], float]


class Trials:
    """Values in the place of runs."""

    def __init__(self, value: Value) -> None:
        self.value, self.asked = value, list[tuple[Set, int]]()

    def at(self, chosen: Set, seed: int) -> Measurement:
        self.asked.append((chosen, seed))
        return Measurement(self.value(chosen, seed), seed, None, 0.5, 2.0)

    def spent(self, chosen: Set) -> float:
        return 0.5 * sum(one == chosen for one, _ in self.asked)


def bisection(value: Value, count: int = 4, **options: Any) -> Bisection:
    differences = [Difference((Part(("params", f"p{number}"), 0, 1),)) for number in range(count)]
    given = {"max_halves": 40, **options}
    trials: Any = Trials(value)
    return Bisection(trials, differences, looks_of(3, 8), 10, tell=lambda _: None, **given)


def test_an_undecided_half_gets_more_seeds_up_to_the_limit() -> None:
    def value(chosen: Set, seed: int) -> float:
        noise = (seed % 2 - 0.5) * (1.6 if chosen == {2, 3} else 0.01)
        return (1.0 if 2 in chosen else 0.0) + noise

    one = bisection(value)
    found = one.run()
    assert [cause.all for cause in found.causes] == [{2}]
    noisy = found.tried_of(frozenset({2, 3}))
    assert noisy is not None and noisy.verdict is Verdict.UNDECIDED and len(noisy.values) == 8
    assert len(found.good) == len(found.bad) == 8, "the ends are measured at the same seeds"
    assert len(found.tried_of(frozenset({2})).values) == 3  # type: ignore[union-attr]
    assert found.halves_seconds == sum(0.5 for chosen, _ in one.trials.asked if chosen not in ({*()}, {0, 1, 2, 3}))


def test_additive_causes_that_are_each_a_half_are_named_together() -> None:
    found = bisection(lambda chosen, seed: 0.5 * len(chosen & {0, 3}) + seed / 1000).run()
    assert [cause.all for cause in found.causes] == [{0, 3}]
    assert any(one.verdict is Verdict.UNDECIDED for one in found.tried)
    assert "2 differences together: GOOD with it +1 [+1, +1] from GOOD" in "\n".join(cause_lines(found))


def test_what_stays_open_is_told() -> None:
    found = bisection(lambda chosen, seed: float(7 in chosen) + seed / 1000, count=12, max_halves=2).run()
    assert found.causes == () and found.open == {6, 7, 8}
    text = "\n".join(cause_lines(found))
    assert "the halves are used up; a cause is among differences 7-9: --max-halves" in text
    assert found_json(found)["open"] == [7, 8, 9]


def test_a_half_that_fails_is_in_the_table_with_its_reason() -> None:
    def value(chosen: Set, seed: int) -> float:
        if chosen == {2, 3}:
            raise HalfFailed("sft:  out\nof \x1b[31mluck", 3.0)
        return float(2 in chosen) + seed / 1000

    found = bisection(value).run()
    assert [cause.all for cause in found.causes] == [{2}]
    row = tried_row(found, found.tried_of(frozenset({2, 3})))  # type: ignore[arg-type]
    assert row[3] == "sft: out of \\x1b[31mluck"
    assert row[5] == "does not run"


def test_ends_that_do_not_differ_run_or_repeat_are_told_in_one_line() -> None:
    with pytest.raises(InputError, match=r"do not differ in the metric: \+0 .* over 8 seeds; more of them may tell"):
        bisection(lambda _, seed: seed / 1000).run()
    with pytest.raises(InputError, match=r"BAD measured 0\.9 when it was recorded and 0\.01 now, at seed 10"):
        bisection(lambda _, seed: seed / 1000, recorded=(0.01, 0.9)).run()
    with pytest.raises(InputError, match="BAD measures nan at seed 10, so nothing can be compared"):
        bisection(lambda chosen, _: float("nan") if chosen else 1.0).run()


def test_runs_of_numbers_are_ranges() -> None:
    assert numbers(frozenset({0, 1, 2, 5, 8, 9})) == "1-3, 6, 9-10"
