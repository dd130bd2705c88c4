"""How likely a response is under further models, as a reward."""

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
    """How far down it counts."""

    asks: ClassVar[tuple[str, ...]] = (SCORERS,)
    floor: float = Field(default=-10.0, lt=0)
    """Least mean log-probability of a token, in nats; also that of a response that a scorer cannot score."""


def likelihood_under(batch: Batch, context: SlotContext, *, config: LikelihoodUnderConfig) -> Tensor:
    """Return [S]: the mean log-probability in nats of a response's tokens under the models of port `scorers`.

    Each scorer reads prompt and response as text and takes the mean over tokens of its own; several scorers count the
    same. The mean over the step is reported as `likelihood_under`, the responses that could not be scored as
    `likelihood_under_unscored`. 0 is certain; an empty response has 0, too.
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
