"""ProGRPO's reweighting (ARM): confident responses gain less, unlikely ones gain more."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from components.rl.configs import AdvantageConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from torch import Tensor

    from components.modeling.models.policy import Policy
    from components.rl.batch.batch import Batch, Prompt


class ConfidenceGapConfig(AdvantageConfig):
    """The weight of the term, and the tokens it is measured on."""

    alpha: float = Field(default=0.3, ge=0)
    """Weight of the term; 0 leaves all advantages as they are."""
    token_share: float = Field(default=0.2, gt=0, le=1)
    """Share of the tokens, the least likely ones, on which confidence is measured; rounded up."""
    apply_to: Literal["all", "correct"] = "all"
    """Which responses of a group with a right one get the term."""


def confidence_gap(batch: Batch, context: SlotContext, *, config: ConfidenceGapConfig) -> Tensor:
    """Return [N]: A + alpha (c(prompt) - c(response)) in groups with a right response, A elsewhere.

    c = exp(mean log-probability of the least likely tokens), between 0 and 1. A prompt is measured from its second
    token on; a prompt of one token has c = 1. Source: Li et al. 2026, Back to Basics: Revisiting Exploration
    (arXiv:2602.05281); alpha and the restriction to right responses are reconstructed.
    """
    from components.rl.batch.batch import RIGHT

    right_s = batch.outcomes == RIGHT
    counted_s = batch.group_sum(right_s.long()) > 0
    if config.apply_to == "correct":
        counted_s = counted_s & right_s
    prompts = prompt_logprobs(context.policies.trained, batch.prompts, max_tokens=context.collector.max_tokens)
    of_prompt_s = confidence(prompts, config.token_share)[batch.group]
    of_response_s = batch.to_rows(confidence(batch.by_trace(batch.old_logprobs), config.token_share))
    gap_s = (of_prompt_s - of_response_s) * counted_s
    return batch.advantages + config.alpha * batch.to_tokens(gap_s)


def confidence(rows: Sequence[Tensor], share: float) -> Tensor:
    """Return one value per row of log-probabilities: exp of the mean of its lowest ones; 1 for an empty row."""
    import torch

    lowest = [row.sort().values[: math.ceil(share * len(row) - 1e-9)] for row in rows]
    values = [part.mean().exp() if len(part) else torch.ones(()) for part in lowest]
    return torch.stack(values) if values else torch.zeros(0)  # no response of the step had a verdict


def prompt_logprobs(policy: Policy, prompts: Sequence[Prompt], *, max_tokens: int) -> list[Tensor]:
    """Return for each prompt of T tokens the log-probabilities [T - 1] of all but its first, on the CPU."""
    import torch

    from components.modeling.packing.logprobs import token_logprobs
    from components.rl.step.scoring import prompt_hidden

    found = []
    with torch.no_grad():
        for prompt, hidden in zip(
            prompts, prompt_hidden(policy, prompts, layer="final", max_tokens=max_tokens), strict=True
        ):
            targets = torch.tensor(prompt.tokens[1:], dtype=torch.long, device=policy.device)
            logits = policy.logits(hidden[:-1].to(policy.device)).float()
            found.append(token_logprobs(logits, targets).cpu())
    return found
