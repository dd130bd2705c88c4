"""The data that one step of the loop gathers before it learns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from components.contract.errors import StageFailed
from components.modeling.ranks import Ranks
from components.rl.batch.batch import Batch
from components.rl.step.collector import Collector
from components.rl.step.ledger import PassRates
from components.rl.step.settings import StepSettings


@dataclass(frozen=True)
class Experience:
    """The data that one step gathers before it learns."""

    batch: Batch
    """Learned tokens only."""
    learned: Sequence[Batch]
    """The batches to learn from, as the replay slot returns them."""
    seen: Batch
    """Every scored response, failed verifications included."""
    num_drawn: int
    """Number of scored trajectories from the policy itself."""
    settings: StepSettings
    collector: Collector
    metrics: dict[str, float]


def check_agreement(got: Experience, ranks: Ranks, step: int) -> None:
    """Raise StageFailed if ranks are about to learn from different batches: they would hang or diverge."""
    if ranks.all.count == 1:
        return
    facts = [(b.num_responses, int(b.tokens.sum()), round(float(b.rewards.nansum()), 6)) for b in got.learned]
    told = ranks.all.gather(facts)
    other = next((facts for facts in told if facts != told[0]), None)
    if other is not None:
        raise StageFailed(
            f"the ranks drew different batches in step {step}: {told[0]} on the first, and {other}; "
            "all of them need one kind of processor and the same libraries"
        )


def note_advantages(ledger: PassRates, batch: Batch) -> None:
    """Write the mean absolute advantage of each prompt's responses into the ledger."""
    mean_abs_s = batch.group_mean(batch.response_mean(batch.advantages.abs()).double())
    for group, mean_abs in dict(zip(batch.group.tolist(), mean_abs_s.tolist(), strict=True)).items():
        item = batch.prompts[group].item
        ledger.set_advantage(item.id, item.domain, mean_abs)
