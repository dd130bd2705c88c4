"""Methods end to end: an offline set comes back, critics learn, and pieces of a batch give one update."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from components.rl.batch.batch import Batch
from components.rl.step.loop import Loop
from tests.rl.step.test_loop import folder, loop_of

__all__ = ["folder"]

OFFLINE = {"name": "offline_group", "num_batches": 3}
HALF = [{"name": "pattern", "pattern": "^[a-mA-M]"}]
"""A reward that an untrained model often gets, and whose reason is the first token."""


def drawn(loop: Loop) -> Batch:
    return loop._gather(loop.collector())


def test_the_same_samples_come_back_whatever_the_policy_has_become(folder: Path) -> None:
    loop = loop_of(folder, method="oreo", rollout=OFFLINE, steps=7, max_new_tokens=4)
    seen: list[Batch] = []
    generator = loop.generator.get_state()
    for _ in range(7):
        collector = loop.collector()
        seen.append(loop._gather(collector))
        with torch.no_grad():
            for _, weight in loop.policies.trained.trainable():
                weight.mul_(1.01)
        loop.state.step += 1
    assert torch.equal(loop.generator.get_state(), generator)
    for step in range(3, 7):
        first, again = seen[step - 3], seen[step]
        assert [p.item.id for p in first.prompts] == [p.item.id for p in again.prompts]
        assert torch.equal(first.tokens, again.tokens)
        assert torch.equal(first.behaviour_logprobs, again.behaviour_logprobs)
        assert not torch.allclose(first.old_logprobs, again.old_logprobs, atol=1e-4)
    assert not torch.equal(seen[0].tokens, seen[1].tokens)
    assert torch.allclose(seen[0].old_logprobs, seen[0].behaviour_logprobs, atol=1e-5)
    assert seen[0].external.all()


def test_a_resumed_run_draws_the_same_set(folder: Path) -> None:
    straight, resumed = (loop_of(folder, method="oreo", rollout=OFFLINE, steps=6) for _ in range(2))
    for _ in range(3):
        straight.step()
        resumed.step()
    resumed.state.memory = json.loads(json.dumps(resumed.state.memory))
    for _ in range(3):
        assert straight.step() == resumed.step()


@pytest.mark.parametrize("method", ["oreo", "ppo", "pacs", "rover", "lp-reg", "rl-plus", "rapo-forward-kl"])
def test_forward_passes_of_any_size_give_one_update(method: str, folder: Path) -> None:
    ends = []
    for micro in (10_000, 25):
        loop = loop_of(
            folder,
            method=method,
            rewards=HALF,
            max_new_tokens=4,
            micro_batch_tokens=micro,
            minibatches=2,
            epochs=2,
        )
        metrics = loop.step()
        ends.append((loop.policies.trained.state(), metrics))
    (whole, expected), (cut, found) = ends
    assert expected["num_updates"] > 0
    for name, weight in whole.items():
        assert torch.allclose(weight, cut[name], atol=2e-5), name
    assert found.keys() == expected.keys()
    assert all(found[name] == pytest.approx(expected[name], abs=2e-3, rel=2e-3) for name in found)


@pytest.mark.parametrize(
    "method, critic", [("oreo", "path_consistency"), ("ppo", "lambda_return")], ids=["oreo", "ppo"]
)
def test_the_critic_comes_to_know_why_a_response_is_rewarded(method: str, critic: str, folder: Path) -> None:
    quick = {"name": critic, "learning_rate": 1e-2, "epochs": 3}
    loop = loop_of(folder, method=method, steps=16, max_new_tokens=3, group_size=64, rewards=HALF, critic=quick)
    for _ in range(16):
        metrics = loop.step()
    assert metrics["critic_explained"] > 0.3
    assert loop.critic is not None
    batch = loop._prepare(loop._gather(loop.collector()), loop.collector())
    later, rewards = batch.positions > 0, batch.to_tokens(batch.rewards)
    gap = batch.values[later & (rewards > 0)].mean() - batch.values[later & (rewards == 0)].mean()
    assert gap > 0.3  # behind the first token the value knows how it ends
