"""What breaks around a verification never becomes a reward: real sandboxes that break, time out, or are killed."""

from __future__ import annotations

import os
import signal
import socket
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from components.contract.endpoints import Endpoint
from components.contract.errors import StageFailed
from components.contract.params import Params
from components.contract.registry import operators
from components.modeling.serving.endpoint import EndpointModel
from components.rl.batch.batch import FAILED, RIGHT, WRONG
from components.runtime.sandbox import Limits, Reply, Status
from components.runtime.system.usage import descendants
from components.tasks.item import Item
from components.tasks.sandboxed import Request, blame
from components.tasks.verdict import RIGHT as JUDGED_RIGHT
from components.tasks.verdict import Verdict
from tests.rl.tiny_loop import items, loop_of, write_model

SLOW = 30.0
LIMITS = Limits(seconds=2.0)
"""Enough for what does nothing, on a machine whose cores are all in use."""


class SleepyConfig(Params):
    """No settings."""


def asleep(seconds: float, item: Item, tools: tuple[str, ...] = ()) -> Request:
    """Return a request that sleeps in the sandbox; what breaks it is looked into with the item's reference."""

    def conclude(reply: Reply) -> Verdict | Request:
        return JUDGED_RIGHT if reply.status is Status.VALUE else blame(reply, asleep(item.data["reference"], item))

    return Request(time.sleep, seconds, conclude, LIMITS, tools=tools)


def toy_sleepy(item: Item, response: str, *, config: SleepyConfig) -> Verdict | Request:
    """Take too long on texts that begin in the last half of the alphabet; need a tool that the item names."""
    late = response[:1].lower() > "m"
    return asleep(SLOW if late else 0.0, item, tuple(item.data.get("tools", ())))


operators("verifier").add("toy_sleepy", f"{__name__}:toy_sleepy", origin="test")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model"))


def pool(**data: Any) -> list[Item]:
    return items(4, verifier="toy_sleepy", data={"reference": 0.0} | data)


def late(texts: tuple[str, ...]) -> torch.Tensor:
    return torch.tensor([text[:1].lower() > "m" for text in texts])


def scored(folder: Path, rows: list[Item]) -> tuple[Any, Any, Any]:
    """Return everything that was scored, what is left to learn from, and the collector."""
    collector = loop_of(folder, pool=rows, method="dr-grpo", max_new_tokens=1).collector()
    kept = collector.score(collector.draw(collector_pool(folder, rows), 4))
    return collector.seen[-1], kept, collector


def collector_pool(folder: Path, rows: list[Item]) -> list[Any]:
    return list(loop_of(folder, pool=rows, method="dr-grpo").pool)


def test_a_text_that_breaks_a_sound_verifier_is_wrong_and_counted(folder: Path) -> None:
    """The reference is judged in time, so the response is at fault: no way out of the count."""
    seen, kept, collector = scored(folder, pool())
    assert late(seen.texts).any() and not late(seen.texts).all()
    assert seen.outcomes.tolist() == torch.where(late(seen.texts), WRONG, RIGHT).tolist()
    texts = zip(seen.group.tolist(), seen.texts, strict=True)
    slow = {(group, text) for group, text in texts if text[:1].lower() > "m"}
    assert collector.judge.num_timeouts == len(slow) and kept.num_responses == seen.num_responses


def test_a_verifier_that_takes_too_long_for_its_reference_gives_no_reward(folder: Path) -> None:
    seen, kept, collector = scored(folder, pool(reference=SLOW))
    broken = late(seen.texts)
    assert seen.outcomes.tolist() == torch.where(broken, FAILED, RIGHT).tolist()
    assert torch.equal(seen.rewards.isnan(), broken) and collector.judge.num_timeouts > 0
    assert kept.num_responses == int((~broken).sum()) and not bool(kept.rewards.isnan().any())


def test_a_sandbox_that_breaks_gives_no_reward_and_no_update(folder: Path) -> None:
    loop = loop_of(folder, pool=pool(tools=["no-such-compiler"]), method="dr-grpo", max_new_tokens=1)
    before = loop.policies.trained.state()
    row = loop.step()
    assert row["num_failed"] == row["num_samples"] == 16 and "reward_mean" not in row
    assert row["dropped_groups"] == row["dropped_unverified"] == 4 and row["skipped_updates"] == 1
    assert row["num_updates"] == row["lost_prompts"] == row["num_timeouts"] == 0
    after = loop.policies.trained.state()
    assert all(torch.equal(after[name], value) for name, value in before.items())


def test_servers_that_are_killed_change_no_verdict(folder: Path) -> None:
    """Those of this process's sandboxes, before a step that needs them."""
    rows = pool()
    expected, _, _ = scored(folder, rows)
    own = descendants(os.getpid())
    assert own
    for pid in own:
        os.kill(pid, signal.SIGKILL)
    found, kept, _ = scored(folder, rows)
    assert found.texts == expected.texts and torch.equal(found.outcomes, expected.outcomes)
    assert kept.num_responses == found.num_responses


def test_an_endpoint_that_is_dead_ends_the_stage_before_anything_is_learned(folder: Path) -> None:
    """A scorer's port where nobody listens: no answer is no reward, and no step is done."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    settings = {"base_url": url, "model": "scorer", "retries": 1, "max_wait_seconds": 0.01, "timeout_seconds": 5}
    scorer = EndpointModel("scorer", Endpoint.model_validate(settings), {}, {}.__setitem__)
    loop = loop_of(folder, method="dr-grpo", rewards=["verifier", "likelihood_under"])
    loop.further = {"scorers": [scorer]}
    before = {name: value.clone() for name, value in loop.policies.trained.state().items()}
    with pytest.raises(StageFailed, match=r"is down .*the same command goes on when it is back"):
        loop.step()
    scorer.close()
    after = loop.policies.trained.state()
    assert all(torch.equal(after[name], value) for name, value in before.items()) and loop.state.step == 0
