"""Memory-R+: the two parts against plain loops of numpy, bounds of the memories, and their way through a checkpoint."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from components.modeling.packing.packed import Packed
from components.rl.batch.batch import Batch
from components.rl.exploration.episodes import Bounds, Episodes
from components.rl.operators.rewards.episodic_memory import exploiting, exploring
from components.rl.step.context import SlotContext
from tests.rl.build import batch_of, context, near, operator, prompt
from tests.rl.step.test_learner import tiny
from tests.rl.step.test_states import by_hand as states_by_hand
from tests.rl.tiny_loop import loop_of, write_model

POLICY = tiny()
FREE = {"explore_after": 0, "dimensions": None}


def now(memory: dict[str, Any]) -> SlotContext:
    return context(policies=SimpleNamespace(start=POLICY), collector=SimpleNamespace(max_tokens=30), memory=memory)


def batch(seed: int) -> Batch:
    """Return a batch whose prompts have different tokens."""
    found = batch_of([[1.0, 0.0, 0.0], [0.0, 1.0], [0.0, 0.0]], [[3, 5, 2], [4, 1], [6, 2]], seed=seed)
    return Batch(**{**vars(found), "prompts": tuple(prompt(i, tokens=(i + 1, 2 * i, 7)) for i in range(3))})


class Reference:
    """The released memory, with the two things that the operator's docstring says otherwise."""

    def __init__(self) -> None:
        self.keys: list[np.ndarray] = []
        self.values: dict[int, list[np.ndarray]] = {}
        self.history: list[float] = []

    def insert(self, key: np.ndarray, value: np.ndarray) -> None:
        for index, known in enumerate(self.keys):
            if np.allclose(known, key, atol=1e-5):
                self.values[index].append(value)
                return
        self.keys.append(key)
        self.values[len(self.keys) - 1] = [value]

    def retrieved(self, key: np.ndarray, k: int) -> np.ndarray:
        order = sorted(range(len(self.keys)), key=lambda i: np.linalg.norm(self.keys[i] - key))[:k]
        return np.array([value for index in order for value in self.values[index]])

    def place(self, novelty: float) -> float | None:
        self.history = [*self.history, novelty][-100:]
        low, high = min(self.history), max(self.history)
        return None if high - low < 1e-6 else (novelty - low) / (high - low)


def by_loops(batches: list[Batch], k: int) -> list[list[float]]:
    """All exploiting parts of a batch first, then all exploring ones, as two reward functions of TRL."""
    right, wrong, found = Reference(), Reference(), []
    for each in batches:
        with torch.no_grad():
            packs = [Packed.from_sequences([prompt.tokens], keep_last=True) for prompt in each.prompts]
            keys = [POLICY.hidden(pack).mean(0).numpy() for pack in packs]
            values = states_by_hand(POLICY, each, -1)[0].numpy()
        rewards = [0.0] * each.num_responses
        for row, group in enumerate(each.group.tolist()):
            if each.rewards[row] > 0:
                right.insert(keys[group], values[row])
            if right.keys:
                centroid = right.retrieved(keys[group], k).mean(0)
                place = right.place(float(np.linalg.norm(values[row] - centroid)))
                rewards[row] += 0.0 if place is None else 1 - place
        for row, group in enumerate(each.group.tolist()):
            if each.rewards[row] <= 0:
                wrong.insert(keys[group], values[row])
            if wrong.keys:
                near_by = wrong.retrieved(keys[group], k)
                sizes = np.linalg.norm(near_by, axis=1) * np.linalg.norm(values[row])
                rewards[row] += wrong.place(1 - float((near_by @ values[row] / sizes).max())) or 0.0
        found.append(rewards)
    return found


@pytest.mark.parametrize("k", [1, 2, 9])
def test_the_reward_is_the_released_one_over_several_steps(k: int) -> None:
    batches, memory = [batch(seed) for seed in range(4)], {}
    bound = operator("reward", "episodic_memory", neighbours=k, **FREE)
    for each, expected in zip(batches, by_loops(batches, k), strict=True):
        given_now = now(memory)
        assert near(bound(each, given_now), expected, 1e-3)
        memory = json.loads(json.dumps(given_now.memory))  # as a resumed stage gets it
    assert given_now.metrics["memory_right"] == 8 and given_now.metrics["memory_wrong"] == 20


def test_a_resumed_run_has_the_same_rewards() -> None:
    bound, straight, saved = operator("reward", "episodic_memory", **FREE), now({}), {}
    for seed in range(3):
        found = bound(batch(seed), straight)
        again = now(saved)
        assert torch.equal(bound(batch(seed), again), found)
        saved = json.loads(json.dumps(again.memory))
    assert saved == straight.memory


def vector(*values: float) -> torch.Tensor:
    return torch.tensor(values)


BOUNDS = Bounds(prompts=2, responses=2, total=3, window=3)


def test_near_to_what_was_right_by_hand() -> None:
    memory, key = Episodes(Bounds(9, 9, 9, 9)), vector(0.0, 0.0)
    assert exploiting(memory, key, vector(1.0, 0.0), 1) == 0.0, "nothing is known"
    memory.insert("a", key, vector(0.0, 0.0))
    memory.insert("a", key, vector(2.0, 0.0))
    assert exploiting(memory, key, vector(4.0, 0.0), 1) == 0.0, "3 from the mean; nothing to compare with"
    assert exploiting(memory, key, vector(1.0, 0.0), 1) == 1.0, "0 from it, the least"
    assert exploiting(memory, key, vector(2.5, 0.0), 1) == pytest.approx(0.5)
    memory.insert("b", vector(5.0, 5.0), vector(100.0, 0.0))
    assert exploiting(memory, key, vector(1.0, 0.0), 1) == 1.0, "the other prompt is farther"


def test_far_from_what_was_wrong_by_hand() -> None:
    memory, key = Episodes(Bounds(9, 9, 9, 9)), vector(0.0)
    assert exploring(memory, key, vector(1.0, 0.0), 1) == 0.0
    memory.insert("a", key, vector(1.0, 0.0))
    memory.insert("a", key, vector(0.0, 3.0))
    assert exploring(memory, key, vector(1.0, 0.0), 1) == 0.0, "a copy"
    assert exploring(memory, key, vector(-1.0, -1.0), 1) == 1.0, "the farthest so far"
    assert exploring(memory, key, vector(1.0, 1.0), 1) == pytest.approx((1 - 0.5**0.5) / (1 + 0.5**0.5))


def test_wrong_responses_are_not_explored_and_nobody_before_enough_prompts() -> None:
    bound = operator("reward", "episodic_memory", exploit=0.0, **FREE)
    found = bound(batch(0), now({}))
    wrong = batch(0).rewards <= 0
    assert found[wrong].tolist() == pytest.approx([0.0] * 5, abs=1e-6) and float(found[~wrong].max()) > 0
    late = operator("reward", "episodic_memory", exploit=0.0, explore_after=4, dimensions=None)
    assert late(batch(0), now({})).tolist() == [0.0] * 7


def test_the_oldest_is_forgotten() -> None:
    memory = Episodes(BOUNDS)
    for number in range(3):
        memory.insert("a", vector(0.0), vector(float(number)))
    assert memory.nearest(vector(0.0), 1).tolist() == [[1.0], [2.0]]  # type: ignore[union-attr]
    memory.insert("b", vector(1.0), vector(9.0))
    memory.insert("b", vector(1.0), vector(8.0))
    assert list(memory.keys) == ["b"] and memory.num_responses == 2, "four are more than three: the oldest prompt goes"
    memory.insert("c", vector(2.0), vector(7.0))
    memory.insert("d", vector(3.0), vector(6.0))
    assert list(memory.keys) == ["c", "d"] and memory.nearest(vector(9.0), 1).tolist() == [[6.0]]  # type: ignore[union-attr]


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.floats(-9, 9, width=32)), max_size=20))
def test_bounds_hold_and_a_state_is_the_memory(steps: list[tuple[str, float]]) -> None:
    memory = Episodes(BOUNDS)
    for name, value in steps:
        memory.insert(name, vector(float(ord(name)), 0.0), vector(value, 1.0))
        memory.scaled(value)
        held = [len(own) for own in memory.values.values()]
        assert len(held) <= 2 and max(held) <= 2 and sum(held) == memory.num_responses <= 3
        assert len(memory.window) <= 3 and memory.keys.keys() == memory.values.keys()
        again = Episodes(BOUNDS, json.loads(json.dumps(memory.state())))
        assert again.state() == memory.state()
        assert torch.equal(again.nearest(vector(98.0, 0.0), 2), memory.nearest(vector(98.0, 0.0), 2))  # type: ignore[arg-type]


def test_projected_features_bound_what_is_stored() -> None:
    given_now = now({})
    found = operator("reward", "episodic_memory", dimensions=4, explore_after=0)(batch(0), given_now)
    assert Episodes(BOUNDS, given_now.memory["wrong"]).nearest(torch.zeros(4), 1).shape[1] == 4  # type: ignore[union-attr]
    assert bool(found.isfinite().all()) and float(found.max()) <= 2 and float(found.min()) >= 0
    none = batch(0).select(torch.zeros(7, dtype=torch.bool))
    assert operator("reward", "episodic_memory")(none, now({})).shape == (0,)


@pytest.mark.parametrize("method", ["memory-r-plus", "laser"])
def test_whole_steps_learn_the_same_from_a_memory_that_went_through_a_checkpoint(method: str, tmp_path: Path) -> None:
    folder = write_model(tmp_path)
    straight, saved = (loop_of(folder, method=method, steps=3) for _ in range(2))
    for _ in range(3):
        straight.step()
        saved.step()
        saved.state.memory = json.loads(json.dumps(saved.state.memory))
    first, second = (loop.policies.trained.state() for loop in (straight, saved))
    assert all(torch.equal(weight, second[name]) for name, weight in first.items())
    assert any("episodic_memory" in place or "self_reward" in place for place in saved.state.memory)
