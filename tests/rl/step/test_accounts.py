"""What became of every prompt: learned from, dropped for a reason, pending or lost; and updates that were skipped."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from components.rl.batch.batch import Batch
from components.rl.batch.joining import concatenate
from components.rl.presets import preset_names
from components.rl.step.accounts import Accounts
from components.rl.step.loop import Loop
from tests.rl.build import batch_of, state_again
from tests.rl.test_golden_steps import OTHER_ROWS
from tests.rl.tiny_loop import items, loop_of, write_model

RECORD = {"browse_samples": 1, "right_samples": 1}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model"))


def groups(places: Sequence[int]) -> Batch:
    """Return a batch with a group of two for each of some prompts."""
    whole = batch_of([[1.0, 0.0]] * (max(places, default=0) + 1))
    parts = [whole.select(whole.group == place) for place in places]
    return concatenate(parts) if parts else whole.select(torch.zeros(whole.num_responses, dtype=torch.bool))


def balance(accounts: Accounts, pending: int = 0) -> int:
    """Return what is left of all that was drawn and added, by the totals alone."""
    gone = accounts.trained + sum(accounts.dropped.values()) + pending
    return accounts.drawn + accounts.added - gone


def test_a_step_by_hand() -> None:
    """Four prompts: one cannot be verified, one has equal rewards, a filter drops one and gets another, one learns."""
    accounts, drawn = Accounts(), groups([0, 1, 2, 3])
    accounts.begin()
    accounts.draw(drawn.prompts, drawn, "group", begun=None)
    accounts.change("unverified", drawn, kept := groups([1, 2, 3]))
    accounts.draw((more := groups([5])).prompts, more, "group", begun=None)
    accounts.gathered(more)
    accounts.filtered("by_dynamic_sampling", kept, left := groups([1, 2, 5]))
    accounts.change("by_advantage", left, left)
    learned = left.with_advantages((left.group != 1).float())
    accounts.learn(learned, silent_at_zero=True)
    assert accounts.metrics(()) == {
        "lost_prompts": 0.0,
        "dropped_groups": 3.0,
        "dropped_unverified": 1.0,
        "dropped_by_dynamic_sampling": 1.0,
        "dropped_zero_variance": 1.0,
    }
    assert (accounts.drawn, accounts.added, accounts.trained) == (5, 0, 2) and balance(accounts) == 0
    assert Accounts.from_json(json.loads(json.dumps(accounts.to_json()))) == accounts


def test_groups_that_go_without_a_reason_are_lost() -> None:
    accounts, drawn = Accounts(), groups([0, 1, 2])
    accounts.begin()
    accounts.draw(drawn.prompts, drawn, "group", begun=None)
    accounts.learn(groups([0]).with_advantages(torch.ones(2)), silent_at_zero=True)
    assert accounts.metrics(())["lost_prompts"] == 2


def test_a_rollout_drops_and_adds_by_its_own_name() -> None:
    accounts = Accounts()
    accounts.begin()
    accounts.draw(groups([0, 1, 2]).prompts, groups([2, 4, 4]), "greedy_failures", begun=None)
    accounts.learn(groups([2, 4, 4]).with_advantages(torch.ones(6)), silent_at_zero=True)
    assert accounts.metrics(()) == {"lost_prompts": 0, "dropped_groups": 2, "dropped_by_greedy_failures": 2}
    assert (accounts.drawn, accounts.added, accounts.trained) == (3, 2, 3)


@given(st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=3), min_size=3, max_size=8), st.data())
def test_draws_ahead_are_pending_until_they_come_and_lost_if_they_never_do(
    steps: list[list[int]], data: st.DataObject
) -> None:
    """By the queue's own rule; a draw that a checkpoint forgets is lost from then on, whatever prompts come later."""
    depth, lost, queue = data.draw(st.integers(1, 2)), 0, []
    accounts = Accounts()
    forgets = data.draw(st.sampled_from([None, *range(1, len(steps) - 1)]))
    for number, places in enumerate(steps):
        accounts = Accounts.from_json(json.loads(json.dumps(accounts.to_json())))  # a checkpoint after every step
        if number == forgets:
            lost += sum(batch.num_prompts for batch in queue)
            queue = []
        accounts.begin()
        begun: list[Any] = []
        while len(queue) < min(depth + 1, len(steps) - number):
            queue.append(groups(places))
            begun += queue[-1].prompts
        come = queue.pop(0)
        accounts.draw(groups(places).prompts, come, "group_ahead", begun=begun)
        accounts.learn(come.with_advantages(torch.ones(come.num_responses)), silent_at_zero=True)
        pending = [prompt for batch in queue for prompt in batch.prompts]
        found = accounts.metrics(pending)
        assert found["lost_prompts"] == lost == balance(accounts, len(pending))
        assert found.get("pending_prompts", 0.0) == len(pending)


@pytest.mark.parametrize("slug", [name for name in preset_names() if name not in OTHER_ROWS])
def test_no_method_loses_a_prompt(slug: str, folder: Path) -> None:
    loop = loop_of(folder, method=slug, steps=3, minibatches=2)
    for _ in range(3):
        row = loop.step()
        assert row["lost_prompts"] == 0
        assert row["dropped_groups"] == sum(value for name, value in row.items() if name.startswith(REASONS))
    assert loop.state.accounts.drawn >= 3 * 4 and balance(loop.state.accounts, len(loop.ahead.prompts)) == 0


REASONS = ("dropped_by_", "dropped_unverified", "dropped_zero_variance", "dropped_past_the_end")
AHEAD: dict[str, Any] = {
    "method": "dr-grpo",
    "rollout": {"name": "group_ahead", "max_staleness": 2},
    "advantages": ["group_mean", "truncated_importance"],
    "steps": 6,
}


def resumed(folder: Path, loop: Loop) -> Loop:
    """Return a fresh loop at the state of another one, as a resumed stage has it."""
    again = loop_of(folder, **AHEAD)
    again.policies.trained.load_state(loop.policies.trained.state())
    again.learner.trainer.load_state(loop.learner.trainer.state())
    again.generator.set_state(loop.generator.get_state())
    again.load_tensors(loop.tensors())
    again.state = state_again(loop.state, **RECORD)
    return again


def test_draws_ahead_are_accounted_for_in_a_resumed_stage(folder: Path) -> None:
    loop, rows = loop_of(folder, **AHEAD), []
    for _ in range(6):
        loop = resumed(folder, loop)
        rows.append(loop.step())
    assert [row.get("pending_prompts", 0.0) for row in rows] == [8, 8, 8, 8, 4, 0]
    assert [row.get("dropped_past_the_end", 0.0) for row in rows] == [0, 0, 0, 0, 4, 4]
    assert {row["lost_prompts"] for row in rows} == {0.0}
    assert loop.state.accounts.drawn == 6 * 4 and balance(loop.state.accounts) == 0


def test_a_queue_that_a_checkpoint_forgot_shows(folder: Path) -> None:
    loop = loop_of(folder, **AHEAD)
    loop.step()
    again = resumed(folder, loop)
    again.ahead.load_state({}, again.pool)
    assert again.step()["lost_prompts"] > 0


def test_equal_rewards_skip_updates_and_drop_groups(folder: Path) -> None:
    """The empty answer of a broken item and rewards that are all equal have reasons of their own."""
    hard = items(verifier="exact", answer="never written")
    row = loop_of(folder, pool=hard, method="dr-grpo", minibatches=2).step()
    assert (row["num_updates"], row["skipped_updates"]) == (0, 2)
    assert row["dropped_groups"] == row["dropped_zero_variance"] == 4 and row["lost_prompts"] == 0
    broken = items(verifier="exact", answer="")
    row = loop_of(folder, pool=broken, method="dr-grpo").step()
    assert row["dropped_groups"] == row["dropped_unverified"] == 4 and row["num_failed"] == 16
    assert row["lost_prompts"] == 0 and row["skipped_updates"] == 1


def test_each_filter_has_its_own_count(folder: Path) -> None:
    loop = loop_of(folder, method="dr-grpo", max_new_tokens=2, filters=["drop_equal_rewards"])
    rows = [loop.step() for _ in range(4)]
    dropped = sum(row.get("dropped_by_drop_equal_rewards", 0.0) for row in rows)
    assert dropped > 0 and all(row.get("dropped_zero_variance", 0.0) == 0 for row in rows)
    assert loop.state.accounts.dropped["by_drop_equal_rewards"] == dropped
