"""SELF's rollout: samples only for prompts that the policy does not answer right greedily."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from components.rl.configs import SlotConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from components.rl.batch.batch import Batch, Prompt
    from components.rl.step.collector import Collector


class GreedyFailuresConfig(SlotConfig):
    """No settings of its own."""

    reads: ClassVar[frozenset[str]] = frozenset({"outcomes"})


def greedy_failures(
    prompts: Sequence[Prompt], collector: Collector, context: SlotContext, *, config: GreedyFailuresConfig
) -> Batch:
    """Answer each prompt greedily, leave out those answered right, and draw `group_size` responses to the others.

    Greedy answers count as probes, enter no ledger and are not learned from; one whose verification fails is not right.
    The dropped prompts are not replaced. Where none is left, the step has no responses. Metric `greedy_failures`: the
    share that is left.

    Source: Nguyen et al. 2025, The Reasoning Boundary Paradox (arXiv:2510.02230), SELF, as its released code filters.
    """
    import torch

    from components.rl.batch.batch import RIGHT

    greedy = collector.draw(prompts, 1, temperature=0.0, to_learn=False)
    collector.num_probes += greedy.num_responses
    right = (collector.outcomes(greedy) == RIGHT).tolist()
    failed = [prompt for prompt, is_right in zip(prompts, right, strict=True) if not is_right]
    context.metrics["greedy_failures"] = len(failed) / len(prompts)
    if not failed:
        return greedy.select(torch.zeros(greedy.num_responses, dtype=torch.bool))
    return collector.draw(failed, context.settings.group_size)
