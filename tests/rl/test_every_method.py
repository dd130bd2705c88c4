"""Of the losses of all methods: forward passes of any size, cut anywhere, give one gradient and one report."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from components.rl.batch.batch import Batch
from components.rl.presets import preset_names
from components.rl.slots import Slots
from components.rl.step.context import SlotContext
from components.rl.step.policies import Policies
from components.rl.step.scoring import frozen_logprobs
from tests.rl.build import batch_of, context
from tests.rl.step.test_learner import LENGTHS, REWARDS, assert_equal, gradients, learner, slots_of, tiny

PAIRS = [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]], [[3, 5], [2, 4], [6, 1]]
"""Groups of one right and one wrong response, which is all that preference losses take."""


WITHOUT_FOLDER = {
    "laser": {"annotate": [{"name": "self_reward", "token": 10}]},
    "dsdr": {"annotate": [{"name": "diversity_coupling", "by": "tokens"}]},
}
"""What needs the tokenizer or the starting policy of a model folder is set to do without."""


def prepared(slots: Slots) -> tuple[Batch, SlotContext]:
    """Return a batch with everything that a step fills in before the losses, off policy by some noise."""
    policy = tiny()
    collector = SimpleNamespace(metrics={}, max_tokens=99, policy=policy, settings=context().settings)
    now = context(collector=collector, policies=Policies(policy, Path("unused"), dtype="float32"))
    batch = batch_of(*(PAIRS if slots.objective.name == "dpo" else (REWARDS, LENGTHS)))
    own = frozen_logprobs(policy, batch, temperature=1.0, max_tokens=10_000)
    noise = torch.randn(len(own), generator=torch.Generator().manual_seed(1)) * 0.1
    batch = replace(batch, old_logprobs=own + noise, reference_logprobs=own - noise, values=noise.abs())
    for bound in (*slots.annotate, *slots.advantages):
        found = bound(batch, now)
        batch = found if isinstance(found, Batch) else batch.with_advantages(found)
    return batch, now


@pytest.mark.parametrize("micro", [1, 12])
@pytest.mark.parametrize("slug", preset_names())
def test_the_size_of_forward_passes_changes_nothing(slug: str, micro: int, monkeypatch: pytest.MonkeyPatch) -> None:
    slots = slots_of(slug, **WITHOUT_FOLDER.get(slug, {}))
    batch, now = prepared(slots)
    expected, metrics = gradients(learner(tiny(), slots), batch, monkeypatch, now)
    found, same = gradients(learner(tiny(), slots, micro=micro), batch, monkeypatch, now)
    assert_equal(found, expected)
    assert same.keys() == metrics.keys()
    assert all(same[name] == pytest.approx(metrics[name], abs=1e-5) for name in metrics)
