"""The pass-rate ledger across a resume: totals and visits are those of an undisturbed run, from visits alone."""

from __future__ import annotations

import json
from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from components.rl.step.ledger import PassRates

COUNTS = st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 2)).filter(any)
STEP = st.lists(st.tuples(st.sampled_from("abcde"), COUNTS), max_size=6)
GIVEN = st.lists(st.tuples(st.sampled_from("cdefg"), COUNTS), max_size=4)


def earlier_stage(rows: list[tuple[str, tuple[int, int, int]]]) -> PassRates:
    """Return the ledger that a stage gets, new each time."""
    made = PassRates(policy="earlier")
    for prompt, counts in rows:
        made.add(prompt, "D", **dict(zip(("right", "wrong", "failed"), counts, strict=True)))
    return PassRates(made.rows(), made.visit_rows(), policy="this")


def play(
    ledger: PassRates, steps: list[list[tuple[str, tuple[int, int, int]]]], first: int, restarts: set[int]
) -> Iterator[int]:
    """Enter steps as the loop does; yield after each."""
    for step in range(first, len(steps)):
        ledger.step = step
        if step in restarts and step:
            ledger.restart()
        for prompt, (right, wrong, failed) in steps[step]:
            ledger.add(prompt, "D", right=right, wrong=wrong, failed=failed)
            ledger.add_rewards(prompt, "D", [0.1 * right])
        ledger.set_advantage("seen only as another's response", "D", 0.5)
        yield step + 1


@given(
    given=GIVEN,
    steps=st.lists(STEP, max_size=6),
    saves=st.sets(st.integers(1, 6)),
    kill=st.integers(0, 6),
    restarts=st.sets(st.integers(1, 5), max_size=2),
)
def test_a_resumed_ledger_is_the_undisturbed_one(given, steps, saves, kill, restarts) -> None:
    straight = earlier_stage(given)
    for _ in play(straight, steps, 0, restarts):
        pass
    killed, log, state, at = earlier_stage(given), [], killed_state(earlier_stage(given)), 0
    for done in play(killed, steps, 0, restarts):
        if done in saves:
            log += killed.fresh_visits()
            state, at = killed_state(killed), done
        if done == kill:
            break
    resumed = earlier_stage(given).resumed(json.loads(json.dumps(log)), **state)
    for done in play(resumed, steps, at, restarts):
        if done in saves:
            log += resumed.fresh_visits()
    log += resumed.fresh_visits()
    assert resumed.rows() == straight.rows() and resumed.visit_rows() == straight.visit_rows()
    assert [vars(entry) for entry in resumed] == [vars(entry) for entry in straight]
    assert [vars(visit) for visit in resumed.visits()] == [vars(visit) for visit in straight.visits()]
    own = [row for row in straight.visit_rows() if row["policy"] == "this"]
    assert log == own  # each visit is in the log once


def killed_state(ledger: PassRates) -> dict[str, int]:
    """Return what a checkpoint holds of a ledger beside its log."""
    return json.loads(json.dumps(ledger.to_json()))
