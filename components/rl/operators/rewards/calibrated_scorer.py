"""What reward models say of a response, measured against their word on a baseline answer to the same prompt."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import Field

from components.contract.further import SCORERS
from components.contract.heads import SCORES, Head
from components.rl.baseline_config import BaselineConfig
from components.rl.configs import RewardConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


class CalibratedScorerConfig(BaselineConfig, RewardConfig):
    """Which reward models are asked, and whose answer is the baseline."""

    asks: ClassVar[tuple[str, ...]] = (SCORERS,)
    asks_heads: ClassVar[frozenset[Head]] = SCORES
    model: str | None = None
    """The one model to ask, as the recipe names it ("reward.model"); null: all at the port, whose mean it is."""
    places: dict[str, Annotated[int, Field(ge=0)]] = Field(default_factory=dict)
    """Domain -> its own reward model, by its place at input `scorers`, from 0; all other domains have `model`."""
    keep: int = Field(default=4096, ge=0)
    """Most scores of baseline answers that are kept from step to step, the latest, also in checkpoints."""


def calibrated_scorer(batch: Batch, context: SlotContext, *, config: CalibratedScorerConfig) -> Tensor:
    """Return [S] in (0, 1): sigmoid(r(x, y) - r(x, y_base)), y_base the baseline answer to the prompt.

    Scores of different prompts, and of different reward models, are comparable then: 1/2 is as good as the baseline.
    NaN, a failed verification, where a model cannot score the response or the baseline answer. Metrics, of the latest
    responses of the policy in the step: `calibrated_<domain>`, their mean reward; `scorer_failed` as for `scorer`.

    Source: Xu et al. 2024, The Perfect Blend (CGPO, arXiv:2409.20370), calibrated reward; the unmerged CGPOTrainer of
    TRL (pull request 2190) has sigmoid of the difference, and the answer of the dataset as the baseline.
    """
    import torch

    batch.require_single("reward calibrated_scorer")
    baseline_p = _baselines(batch, context, config)
    scores_s = _rated(batch, context, config)
    reward_s = (scores_s - baseline_p[batch.group]).sigmoid()
    domains = [batch.prompts[group].item.domain for group in batch.group.tolist()]
    for domain in dict.fromkeys(domains):
        own_s = torch.tensor([each == domain for each in domains]) & ~batch.external & ~reward_s.isnan()
        if bool(own_s.any()):
            context.metrics[f"calibrated_{domain}"] = float(reward_s[own_s].double().mean())
    return reward_s


def _rated(batch: Batch, context: SlotContext, config: CalibratedScorerConfig) -> Tensor:
    """Return [S]: the score by the reward model of each response's domain."""
    import torch

    from components.contract.errors import InputError
    from components.rl.operators.rewards.scorer import ScorerConfig, scorer

    models = context.further[SCORERS]
    chosen = [config.model] * batch.num_responses
    for row, group in enumerate(batch.group.tolist()):
        if (place := config.places.get(domain := batch.prompts[group].item.domain)) is not None:
            if place >= len(models):
                raise InputError(
                    f"reward calibrated_scorer: domain {domain!r} has the reward model at place {place}, and input "
                    f"scorers has {len(models)}, from place 0: {', '.join(model.name for model in models)}"
                )
            chosen[row] = models[place].name
    found_s = torch.full((batch.num_responses,), torch.nan)
    for name in dict.fromkeys(chosen):
        rows = torch.tensor([each == name for each in chosen])
        found_s[rows] = scorer(batch.select(rows), context, config=ScorerConfig(model=name))
    return found_s


def _baselines(batch: Batch, context: SlotContext, config: CalibratedScorerConfig) -> Tensor:
    """Return [P]: the score of the baseline answer to each prompt; NaN where it has none."""
    from dataclasses import replace

    import torch

    from components.rl.step.baselines import baseline_answers_of

    known: dict[str, float | None] = dict(context.memory.get("baselines", ()))
    new: dict[str, int] = {}
    for row, group in enumerate(batch.group.tolist()):
        if (item_id := batch.prompts[group].item.id) not in known:
            new.setdefault(item_id, row)
    if new:
        rows = batch.select(torch.tensor(list(new.values())))
        answers = replace(rows, texts=tuple(baseline_answers_of(rows.prompts, context, config)), earlier_turns=None)
        scores = _rated(answers, context, config).tolist()
        known |= dict(zip(new, [None if math.isnan(score) else score for score in scores], strict=True))  # JSON: no NaN
    found = [known[prompt.item.id] for prompt in batch.prompts]
    # a list, since checkpoints sort the keys of what they save
    context.memory["baselines"] = [[key, score] for key, score in known.items()][max(0, len(known) - config.keep) :]
    return torch.tensor([torch.nan if score is None else score for score in found])
