"""Forgetting, shares and pools of the replay stage, by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.contract.artifacts import ArtifactType
from components.contract.context import Input
from components.contract.errors import InputError
from components.measure.intervals import Bootstrap, Interval
from components.measure.ledger import PassRateRow
from components.replay.forgetting import forgotten, measure_forgetting, rehearsal_shares
from components.replay.pools import Pools, Tally, gold, read_pools, recorded_rollouts, take
from tests.stages.toy_models import demonstration, prompt_row, prompt_rows
from tests.support.stage_context import write_jsonl


def drop(value: float, reach: float = 0.01) -> Interval:
    return Interval(value, value - reach, value + reach, 64)


def ledger(rates: dict[str, dict[str, int]]) -> dict[str, dict[str, PassRateRow]]:
    """Rates out of 8 samples, by domain and prompt; -1 for a prompt that could not be verified."""
    rows: dict[str, dict[str, PassRateRow]] = {}
    for domain, prompts in rates.items():
        for name, right in prompts.items():
            counts = {"num_right": 0, "num_wrong": 0, "num_failed": 8}
            if right >= 0:
                counts = {"num_right": right, "num_wrong": 8 - right, "num_failed": 0}
            rows.setdefault(domain, {})[name] = PassRateRow(prompt_id=name, domain=domain, num_samples=8, **counts)
    return rows


def test_forgetting_is_the_paired_drop() -> None:
    before = ledger({"A": {"p": 2, "q": 4}, "B": {"r": 8, "s": 8, "t": 8, "u": 8}, "C": {"v": 8}})
    after = ledger({"A": {"p": 6, "q": 8}, "B": {"r": 4, "s": 2, "t": -1, "z": 0}, "C": {"w": 0}})
    drops = measure_forgetting(before, after, Bootstrap(resamples=300))
    assert list(drops) == ["A", "B"]  # C shares no prompt
    assert drops["A"].value == pytest.approx(-0.5) and drops["A"].n == 2
    assert drops["B"].value == pytest.approx((0.5 + 0.75) / 2) and drops["B"].n == 2  # t failed, u and z are unpaired
    assert forgotten(drops) == ["B"]


@pytest.mark.parametrize(
    ("drops", "keep", "expected"),
    [
        # the domain just learnt keeps its share; the others divide the rest by what they lost: 0.3 to 0.1
        ({"A": drop(-0.5), "B": drop(0.3), "C": drop(0.1)}, 0.4, {"A": 0.4, "B": 0.45, "C": 0.15}),
        ({"A": drop(-0.5), "B": drop(0.3)}, 0.5, {"A": 0.5, "B": 0.5}),
        ({"B": drop(0.3), "C": drop(0.1)}, 0.5, {"A": 0.5, "B": 0.375, "C": 0.125}),  # A was not measured: kept
        ({"A": drop(0.3), "B": drop(0.1), "C": drop(0.2)}, 0.5, {"A": 0.5, "B": 1 / 6, "C": 1 / 3}),  # all have lost
        ({"A": drop(-0.1), "B": drop(0.1, reach=0.2)}, 0.2, {"A": 0.5, "B": 0.5}),  # B's drop may be noise
        ({}, 0.9, {"A": 1 / 3, "B": 1 / 3, "C": 1 / 3}),
    ],
)
def test_shares_by_hand(drops: dict[str, Interval], keep: float, expected: dict[str, float]) -> None:
    shares = rehearsal_shares(expected, drops, keep)
    assert shares == pytest.approx(expected) and list(shares) == sorted(expected)


@given(st.dictionaries(st.sampled_from("ABCDE"), st.floats(-1, 1).map(drop)), st.floats(0, 1))
def test_shares_sum_to_one_and_follow_the_drop(drops: dict[str, Interval], keep: float) -> None:
    shares = rehearsal_shares("ABCDE", drops, keep)
    assert sum(shares.values()) == pytest.approx(1)
    lost = sorted(forgotten(drops), key=lambda name: drops[name].value)
    assert [shares[name] for name in lost] == sorted(shares[name] for name in lost)


def artifact(folder: Path, kind: ArtifactType = ArtifactType.DATASET) -> Input:
    return Input(type=kind, digest="0" * 64, path=folder, metadata={}, source="test.data")


def rollout(row: dict[str, Any], response: str, outcome: str, step: int) -> dict[str, Any]:
    extra = {"prompt_id": row["id"], "response": response, "outcome": outcome, "step": step, "reward": 1.0}
    return {**{key: value for key, value in row.items() if key != "id"}, **extra, "num_tokens": 3}


def test_gold_is_verified_and_what_fails_is_counted_apart(tmp_path: Path) -> None:
    rows = prompt_rows("flip")
    mixed = [
        demonstration(rows[0]),
        demonstration(rows[1], "wrong"),
        demonstration(rows[2], f"<think>x<answer>{rows[2]['answer']}"),
    ]
    mixed += [demonstration({**rows[3], "verifier": "no-such-verifier"}), demonstration(rows[3])]
    pools = read_pools([artifact(write_jsonl(tmp_path, mixed))], [])
    tally = Tally()
    found = list(gold(pools, "flip", 0, tally))
    wanted = {(row["id"], row["response"]) for row in (mixed[0], mixed[2], mixed[4])}
    assert {(row["id"], row["response"]) for row in found} == wanted
    assert {row["origin"] for row in found} == {"gold"}
    assert (tally.right["flip"], tally.rejected["flip"], tally.failed["flip"]) == (3, 1, 1)


def test_gold_is_verified_only_as_far_as_it_is_taken(tmp_path: Path) -> None:
    pools = read_pools([artifact(write_jsonl(tmp_path, map(demonstration, prompt_rows("flip"))))], [])
    tally = Tally()
    assert len(take(gold(pools, "flip", 0, tally), 3, 1)) == 3
    assert sum(tally.right.values()) == 3


def test_rollouts_give_right_responses_the_latest_first_and_the_prompts(tmp_path: Path) -> None:
    one, two, *_ = prompt_rows("copy")
    rows = [
        rollout(one, "old", "right", 1),
        rollout(one, "bad", "wrong", 3),
        rollout(two, "new", "right", 2),
        rollout(two, "broken", "failed", 4),
    ]
    pools = read_pools([], [artifact(write_jsonl(tmp_path, rows), ArtifactType.ROLLOUTS)])
    found = list(recorded_rollouts(pools, "copy"))
    assert [(row["id"], row["response"]) for row in found] == [(two["id"], "new"), (one["id"], "old")]
    assert {item.id for item in pools.prompts["copy"]} == {one["id"], two["id"]}


def test_prompts_of_rollouts_are_preferred_to_those_of_datasets(tmp_path: Path) -> None:
    copies = prompt_rows("copy")
    data = artifact(write_jsonl(tmp_path / "data", [*copies, *prompt_rows("flip")]))
    recorded = artifact(write_jsonl(tmp_path / "rollouts", [rollout(copies[0], "ab", "right", 1)]))
    pools = read_pools([data], [recorded])
    assert [item.id for item in pools.prompts["copy"]] == [copies[0]["id"]]
    assert len(pools.prompts["flip"]) == 12 and not pools.demonstrations


def test_take_limits_prompts_and_skips_repeats() -> None:
    row = prompt_row("copy", "ab")
    offered = [demonstration(row, text) for text in ("x", "x", "y", "z")] + [demonstration(prompt_row("copy", "ba"))]
    assert [found["response"] for found in take(offered, 9, 2)] == ["x", "y", "ba"]
    assert [found["response"] for found in take(offered, 2, 9)] == ["x", "y"]


def test_answers_that_differ_in_an_earlier_turn_only_are_two() -> None:
    row = prompt_row("copy", "ab")
    offered = [{**demonstration(row, "z"), "turns": turns} for turns in (["x"], ["y"], ["x"])]
    assert [found["turns"] for found in take(offered, 9, 9)] == [["x"], ["y"]]


def test_no_rows_at_all_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nothing to rehearse"):
        read_pools([artifact(write_jsonl(tmp_path, []))], [])
    assert Pools({}, {}, {}).domains == []
