"""Draws ahead: how old the weights behind a batch are, what is saved, and that nobody waits for the engine."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from components.modeling.generation.sampler import Drawing, NativeSampler
from components.modeling.generation.sampling_config import SamplingConfig
from components.modeling.loading.load import load_policy
from components.rl.batch.batch import Batch
from components.rl.step.collector import Collector
from components.rl.step.loop import Loop
from components.rl.step.rollout_queue import QueuedDraw, RolloutQueue
from components.rl.step.scoring import frozen_logprobs
from tests.modeling.generation.engines import GATED, engine_sampler
from tests.rl.build import prompt
from tests.rl.step.test_engine_sampler import folder, loop_of, samples  # noqa: F401 - a fixture among them

AHEAD = {"rollout": "group_ahead", "advantages": ["group_mean", "truncated_importance"]}


def ordered(number: int) -> QueuedDraw:
    """A draw of one token whose log-probability is its number."""
    return QueuedDraw((prompt(number),), Drawing(lambda: samples([-float(number)], None)))


@given(depth=st.integers(1, 4), steps=st.integers(1, 9))
def test_every_batch_is_learned_from_once_and_none_is_too_old(depth: int, steps: int) -> None:
    ahead, begun_at, taken = RolloutQueue(), [], []
    for step in range(steps):

        def begin(step: int = step) -> QueuedDraw:
            begun_at.append(step)
            return ordered(len(begun_at) - 1)

        taken.append(int(ahead.exchange(begin, depth, steps - step).prompts[0].item.id[1:]))
    assert taken == list(range(steps)) and len(begun_at) == steps and len(ahead) == 0
    assert [step - begun_at[number] for step, number in enumerate(taken)] == [min(step, depth) for step in range(steps)]


def test_what_waits_is_saved_and_restored() -> None:
    pool = [prompt(number) for number in range(4)]
    ahead, again = RolloutQueue(), RolloutQueue()
    numbers = iter([3, 1, 2])
    ahead.exchange(lambda: ordered(next(numbers)), depth=2, steps_left=9)
    again.load_state(ahead.state(pool), pool)
    assert len(again) == len(ahead) == 2
    for number in (1, 2):
        one, two = (queue.exchange(lambda: ordered(0), depth=1, steps_left=1) for queue in (ahead, again))
        assert two.prompts == [pool[number]]
        first, second = one.drawing.samples(), two.drawing.samples()
        assert second.num_samples == 1 and second.policy_logprobs is None
        assert torch.equal(first.tokens, second.tokens) and second.logprobs.tolist() == [[-number]]


def learned_batches(loop: Loop, monkeypatch: pytest.MonkeyPatch, steps: int) -> list[Batch]:
    """Run steps and return the batch that each began from, as it was drawn."""
    found: list[Batch] = []
    original = Collector.draw_ahead

    def kept(self: Collector, *arguments: object, **options: object) -> Batch:
        found.append(original(self, *arguments, **options))
        return found[-1]

    monkeypatch.setattr(Collector, "draw_ahead", kept)
    for _ in range(steps):
        loop.step()
    return found


def test_behaviour_is_of_the_weights_before_and_old_of_those_that_learn(
    folder: Path,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    policy = load_policy(folder)
    loop = loop_of(folder, policy, None, **AHEAD)
    before = [policy.copy()]
    batches = []
    for _ in range(4):
        (batch,) = learned_batches(loop, monkeypatch, 1)
        monkeypatch.undo()
        batches.append(batch)
        before.append(policy.copy())
    for step, batch in enumerate(batches):
        drew, learns = before[max(0, step - 1)], before[step]
        for weights, logprobs in ((drew, batch.behaviour_logprobs), (learns, batch.old_logprobs)):
            expected = frozen_logprobs(weights, batch, temperature=1.0, max_tokens=999)
            torch.testing.assert_close(logprobs, expected, atol=1e-5, rtol=1e-5)
    assert not torch.allclose(batches[3].behaviour_logprobs, batches[3].old_logprobs, atol=1e-3)


def test_learning_one_step_behind_still_learns(folder: Path) -> None:  # noqa: F811
    loop = loop_of(folder, load_policy(folder), None, steps=8, **AHEAD)
    rows = [loop.step() for _ in range(8)]
    assert rows[0]["sampler_gap_max"] < 1e-4 < 1e-2 < rows[-1]["sampler_gap_max"]
    assert rows[-1]["pass_rate"] > rows[0]["pass_rate"] + 0.2
    assert all(row["ratio_max"] == pytest.approx(1, abs=1e-4) for row in rows if row["num_updates"])


def test_no_draw_outlives_its_phase(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    """By hand: a phase of depth 2 and 4 steps, one that does not draw ahead, one of depth 1 and 3 steps."""

    def ahead(depth: int) -> dict[str, object]:
        return {"slots": {"rollout": {"name": "group_ahead", "max_staleness": depth}}}

    phases = [
        {"name": "a", "steps": 4, **ahead(2)},
        {"name": "b", "steps": 3, "slots": {"rollout": "group"}},
        {"name": "c", "steps": 3, "group_size": 4, **ahead(1)},
    ]
    loop = loop_of(folder, load_policy(folder), None, **AHEAD | {"steps": 10, "phases": phases})
    begun: list[int] = []
    ages: list[int] = []
    begin, exchange = NativeSampler.begin, RolloutQueue.exchange

    def noted_begin(self: NativeSampler, *arguments: object, **options: object) -> Drawing:
        drawing = begin(self, *arguments, **options)
        begun.append(loop.state.step)
        return replace(drawing)

    def noted_exchange(self: RolloutQueue, *arguments: object) -> QueuedDraw:
        found = exchange(self, *arguments)
        ages.append(loop.state.step - begun[len(ages)])
        assert found.drawing.samples().num_samples == loop.phase.settings.group_size
        return found

    monkeypatch.setattr(NativeSampler, "begin", noted_begin)
    monkeypatch.setattr(RolloutQueue, "exchange", noted_exchange)
    for _ in range(10):
        loop.step()
    assert ages == [0, 1, 2, 2, 0, 1, 1] and len(begun) == 7 and len(loop.ahead) == 0


def test_ratios_begin_at_one_while_the_temperature_moves(folder: Path) -> None:  # noqa: F811
    """The loss is at the step's temperature, and so is what it is compared with; what drew was at another."""
    schedule = {"schedule": {"name": "anneal", "final_temperature": 0.2}}
    loop = loop_of(folder, load_policy(folder), None, **AHEAD | schedule)
    rows = [loop.step() for _ in range(6)]
    assert all(row["ratio_max"] == pytest.approx(1, abs=1e-4) for row in rows if row["num_updates"])
    assert rows[-1]["sampler_gap_max"] > 0.1


def test_an_engine_draws_while_this_process_does_other_things(folder: Path, tmp_path: Path) -> None:  # noqa: F811
    """The engine waits at a gate that is opened only after `begin` has returned."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    with engine_sampler(load_policy(folder), GATED, gate=str(gate)) as sampler:
        drawing = sampler.begin([[5, 6]], SamplingConfig(num_samples=3), generator=torch.Generator().manual_seed(0))
        sampler.rest()  # leaves a drawing engine alone
        with gate.open("wb"):
            assert drawing.samples().responses() == [[5]] * 3
