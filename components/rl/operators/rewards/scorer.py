"""What reward models say of a response, as a reward."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from components.contract.further import SCORERS
from components.contract.heads import SCORES, Head
from components.rl.configs import RewardConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


class ScorerConfig(RewardConfig):
    """How scores become rewards."""

    asks: ClassVar[tuple[str, ...]] = (SCORERS,)
    asks_heads: ClassVar[frozenset[Head]] = SCORES
    model: str | None = None
    """The one model to ask, as the recipe names it ("reward.model"); null: all at the port, whose mean it is."""
    squash: Literal["none", "sigmoid"] = "none"
    """sigmoid: the reward lies between 0 and 1, so that scores far above others are worth little more."""
    shift: float = 0.0
    """Added to the score, before it is squashed: a reward model of pairs has no zero of its own."""


def scorer(batch: Batch, context: SlotContext, *, config: ScorerConfig) -> Tensor:
    """Return [S]: the score of task and response by the reward models of port `scorers`, the mean over these.

    Texts are tokenised by each model's own tokenizer. NaN, a failed verification, where a model cannot score a response
    (it is too long, or names a mark of the model's template) or its score is not finite. Metric: `scorer_failed`,
    responses without a score in the whole step, of all rewards of this kind.

    Source: Ouyang et al. 2022 (arXiv:2203.02155), section 3.5.
    """
    import torch

    from components.contract.errors import UnknownName

    models = {model.name: model for model in context.further[SCORERS]}
    if config.model is not None and config.model not in models:
        raise UnknownName("model at input scorers", config.model, models)
    chosen = [models[config.model]] if config.model else list(context.further[SCORERS])
    turns = batch.earlier_turns or ((),) * batch.num_responses
    pairs = [
        (item.prompt_with(earlier) if earlier else item.task, text)
        for item, earlier, text in zip(
            (batch.prompts[group].item for group in batch.group.tolist()), turns, batch.texts, strict=True
        )
    ]
    total = torch.zeros(batch.num_responses)
    for model in chosen:
        total += torch.tensor([torch.nan if one is None else one for one in model.rate(pairs)])
    scores = (total / len(chosen) + config.shift).where(total.isfinite(), torch.nan)
    context.metrics["scorer_failed"] = context.metrics.get("scorer_failed", 0.0) + float(scores.isnan().sum())
    return scores.sigmoid() if config.squash == "sigmoid" else scores
