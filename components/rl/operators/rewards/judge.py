"""What judges say of a response, as a reward."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from components.contract.further import JUDGES
from components.judges.config import PointwiseConfig
from components.rl.configs import RewardConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


class JudgeRewardConfig(RewardConfig, PointwiseConfig):
    """How the judges are asked and read."""

    asks: ClassVar[tuple[str, ...]] = (JUDGES,)
    model: str | None = None
    """The one judge to ask, as the recipe names it ("judge.model"); null: all at the port, whose mean it is."""
    keep: int = Field(default=4096, ge=0)
    """Most verdicts that are kept by content from step to step, the latest, also in checkpoints."""


def judge(batch: Batch, context: SlotContext, *, config: JudgeRewardConfig) -> Tensor:
    """Return [S] in [0, 1]: what the judges of port `judges` say of task and response, the mean over these.

    Texts are tokenised by each judge's own tokenizer. NaN, a failed verification, where any judge's verdict cannot be
    read. Equal responses to one task are judged once. Metrics, of the whole step and all rewards of this kind:
    `judge_failed`, responses without a verdict; `judge_verdicts`, those with one; `judge_asked`, requests that were not
    kept; `judge_mean`, of the verdicts.

    Source: Zheng et al. 2023 (arXiv:2306.05685), section 3.1, single answer grading; with {answer} in the template a
    generative verifier as in Zhao et al. 2025 (arXiv:2507.08794).
    """
    import torch

    from components.contract.errors import UnknownName
    from components.judges.judge import Case, PointwiseJudge

    models = {model.name: model for model in context.further[JUDGES]}
    if config.model is not None and config.model not in models:
        raise UnknownName("model at input judges", config.model, models)
    turns = batch.earlier_turns or ((),) * batch.num_responses
    items = [batch.prompts[group].item for group in batch.group.tolist()]
    pairs = [
        (Case(item.prompt_with(earlier), item.answer), text)
        for item, earlier, text in zip(items, turns, batch.texts, strict=True)
    ]
    asked, total = 0, torch.zeros(batch.num_responses)
    kept = dict(context.memory.get("kept", ()))
    for model in [models[config.model]] if config.model else models.values():
        one = PointwiseJudge(model, config, kept, seed=context.seed)
        total += torch.tensor([torch.nan if said.value is None else said.value for said in one.judge(pairs)])
        asked += one.counts["asked"]
    # a list, since checkpoints sort the keys of what they save
    context.memory["kept"] = [[key, said] for key, said in kept.items()][max(0, len(kept) - config.keep) :]
    rewards = total / (1 if config.model else len(models))
    known = rewards[~rewards.isnan()]
    _count(context.metrics, known, failed=len(rewards) - len(known), asked=asked)
    return rewards


def _count(metrics: dict[str, float], known: Tensor, *, failed: int, asked: int) -> None:
    """Add to the step's metrics: the reward may run for each batch that is drawn, and beside another of its kind."""
    before = metrics.get("judge_verdicts", 0.0)
    for name, count in (("failed", failed), ("verdicts", len(known)), ("asked", asked)):
        metrics[f"judge_{name}"] = metrics.get(f"judge_{name}", 0.0) + count
    if len(known):
        total = metrics.get("judge_mean", 0.0) * before + float(known.sum())
        metrics["judge_mean"] = total / metrics["judge_verdicts"]
