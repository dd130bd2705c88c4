"""The likelihood of a response under further models, as a reward."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from components.contract.further import SCORERS
from components.rl.configs import RewardConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


class LikelihoodUnderConfig(RewardConfig):
    """The lower bound of the reward."""

    asks: ClassVar[tuple[str, ...]] = (SCORERS,)
    floor: float = Field(default=-10.0, lt=0)
    """Lowest mean log-probability of a token, in nats; also the value of a response that a scorer cannot score."""


def likelihood_under(batch: Batch, context: SlotContext, *, config: LikelihoodUnderConfig) -> Tensor:
    """Return [S]: the mean log-probability in nats of a response's tokens under the models of port `scorers`.

    Each scorer reads prompt and response as text and takes the mean over its own tokens; scorers have equal weight.
    Metrics: `likelihood_under`, the mean over the step; `likelihood_under_unscored`, responses that could not be
    scored. 0 means certain; an empty response also has 0.
    """
    import torch

    turns = batch.earlier_turns or ((),) * batch.num_responses
    prompts = [
        batch.prompts[group].item.prompt_with(earlier)
        for group, earlier in zip(batch.group.tolist(), turns, strict=True)
    ]
    pairs = list(zip(prompts, batch.texts, strict=True))
    scorers, unscored = context.further[SCORERS], 0
    total = torch.zeros(batch.num_responses)
    for scorer in scorers:
        found = scorer.score(pairs)
        unscored += sum(one is None for one in found)
        total += torch.tensor([config.floor if one is None else max(config.floor, one.mean) for one in found])
    rewards = total / len(scorers)
    if pairs:
        context.metrics["likelihood_under"] = float(rewards.mean())
        context.metrics["likelihood_under_unscored"] = float(unscored)
    return rewards
