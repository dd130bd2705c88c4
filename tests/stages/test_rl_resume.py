"""Everything that the rl stage remembers: a killed run ends with the bytes of a straight one."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.contract.errors import InputError
from components.rl.component import COMPONENT
from tests.stages.rl_stage import PARAMS, RandomClock, item, lines, make_model, run
from tests.support.stage_context import Finished, Interrupted, run_stage, write_jsonl

pytestmark = pytest.mark.usefixtures("one_thread", "toys")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def prompts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_jsonl(tmp_path_factory.mktemp("prompts"), [item(index) for index in range(10)])


STATEFUL: dict[str, dict[str, Any]] = {
    "average": {"method": "grpo", "reference": {"name": "ema", "decay": 0.5}},
    "snapshot": {"method": "grpo", "reference": {"name": "reset", "every": 3}},
    "critic": {
        "method": "dr-grpo",
        "advantages": ["toy_above_value"],
        "critic": {"name": "toy_return", "learning_rate": 1e-2, "epochs": 2, "minibatches": 2, "clip": 0.5},
    },
    "buffer": {"method": "dapo", "replay": "toy_last_batch"},
    "ahead": {
        "method": "dr-grpo",
        "rollout": {"name": "group_ahead", "max_staleness": 2},
        "advantages": ["group_mean", "truncated_importance"],
    },
    "lora": {"method": "grpo", "reference": {"name": "ema", "decay": 0.5}, "lora": {"rank": 2}},
}


@pytest.fixture(scope="module", params=sorted(STATEFUL))
def straight(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, model: Path, prompts: Path
) -> tuple[str, Finished]:
    """A case and its run without interruption."""
    return request.param, run(tmp_path_factory.mktemp("straight"), model, prompts, **STATEFUL[request.param])


def test_a_killed_run_ends_with_the_same_bytes(
    straight: tuple[str, Finished], tmp_path: Path, model: Path, prompts: Path
) -> None:
    case, expected = straight
    with pytest.raises(Interrupted):
        run(tmp_path, model, prompts, stop_after=4, **STATEFUL[case])
    resumed = run(tmp_path, model, prompts, **STATEFUL[case])
    assert resumed.digests == expected.digests
    assert resumed.history == expected.history and resumed.metrics == expected.metrics


@settings(max_examples=2, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_checkpoints_by_time_change_no_byte_whenever_they_are_made_and_wherever_it_is_killed(
    seed: int, straight: tuple[str, Finished], tmp_path_factory: pytest.TempPathFactory, model: Path, prompts: Path
) -> None:
    case, expected = straight
    folder, clock = tmp_path_factory.mktemp("timed"), RandomClock(seed, kills=2)
    timed = STATEFUL[case] | {"checkpoint_every": None, "checkpoint_minutes": 1.0}
    for _ in range(clock.kills_left):
        with suppress(Interrupted):
            run(folder, model, prompts, due=clock, **timed)
    clock.kills_left = 0
    found = run(folder, model, prompts, due=clock, **timed)
    assert found.digests == expected.digests
    assert found.history == expected.history and found.metrics == expected.metrics


def test_what_is_remembered_makes_a_difference(
    straight: tuple[str, Finished], tmp_path: Path, model: Path, prompts: Path
) -> None:
    """Without it the resume test above would hold for a state that nothing reads."""
    plain: dict[str, Any] = {
        "average": {"reference": "initial"},
        "snapshot": {"reference": "initial"},
        "critic": {"critic": {"name": "toy_return", "learning_rate": 1e-9}},
        "buffer": {"replay": "none"},
        "ahead": {"rollout": "group"},
        "lora": {"reference": "initial"},
    }
    case, with_state = straight
    without = run(tmp_path, model, prompts, **STATEFUL[case] | plain[case])
    assert with_state.digests["model"] != without.digests["model"]


def test_visits_are_written_and_add_up_to_the_totals(tmp_path: Path, model: Path, prompts: Path) -> None:
    rewards = [{"name": "verifier", "right": 1.0, "wrong": -1.0}]
    done = run(tmp_path, model, prompts, method="dapo", rewards=rewards)
    totals = {row["prompt_id"]: row for row in lines(done.outputs["metrics"] / "passrates.jsonl")}
    visits = lines(done.outputs["metrics"] / "visits.jsonl")
    assert {row["step"] for row in visits} == set(range(6))
    for prompt_id, total in totals.items():
        for count in ("num_right", "num_wrong", "num_failed"):
            assert sum(row[count] for row in visits if row["prompt_id"] == prompt_id) == total[count]
    for row in visits:
        assert row["reward_sum"] == row["num_right"] - row["num_wrong"]
        assert row["reward_squares"] == row["num_right"] + row["num_wrong"]
    learned = [row for row in visits if row["mean_abs_advantage"] is not None]
    assert len(learned) > 0 and all(row["mean_abs_advantage"] > 0 for row in learned)
    assert all(row["num_right"] and row["num_wrong"] for row in learned)


def test_a_ledger_carries_over_to_the_next_stage(tmp_path: Path, model: Path, prompts: Path) -> None:
    first = run(tmp_path / "first", model, prompts, steps=2)
    inputs = {"model": first.outputs["model"], "dataset": [prompts], "ledger": first.outputs["metrics"]}
    second = run_stage(COMPONENT, tmp_path / "second", params=PARAMS | {"steps": 3}, inputs=inputs, seed=3)
    totals = lines(second.outputs["metrics"] / "passrates.jsonl")
    assert sum(row["num_samples"] for row in totals) == (2 + 3) * 16
    visits = lines(second.outputs["metrics"] / "visits.jsonl")
    old, new = dict.fromkeys(row["policy"] for row in visits)
    assert [row for row in visits if row["policy"] == old] == lines(first.outputs["metrics"] / "visits.jsonl")
    assert {row["step"] for row in visits if row["policy"] == new} == {0, 1, 2}
    assert second.metrics["num_samples"] == 3 * 16


@pytest.mark.parametrize(
    "content, words",
    [(None, "no passrates.jsonl"), ("{", "passrates.jsonl:1: not JSON"), ("{}", "passrates.jsonl:1: not a row")],
)
def test_a_folder_that_is_no_ledger_is_refused(
    content: str | None, words: str, tmp_path: Path, model: Path, prompts: Path
) -> None:
    folder = tmp_path / "ledger"
    folder.mkdir()
    (folder / "other.txt").write_text("x")
    if content is not None:
        (folder / "passrates.jsonl").write_text(content + "\n")
    with pytest.raises(InputError, match=words):
        run(tmp_path / "run", model, prompts, ledger=folder)
