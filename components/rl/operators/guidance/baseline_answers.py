"""A baseline answer joins the groups that have nothing to learn from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from components.rl.baseline_config import BaselineConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from components.rl.batch.batch import Batch
    from components.rl.step.collector import Collector


class BaselineAnswersConfig(BaselineConfig):
    """Which groups get one."""

    when: Literal["none_satisfies", "always"] = "none_satisfies"
    """none_satisfies: groups in which no response has a reward above 0. always: every group, so that one whose rewards
    fall to 0 later, such as beyond a limit of divergence, has it as well."""
    domains: tuple[str, ...] = ()
    """Domains whose groups get one; empty: all."""


def baseline_answers(
    batch: Batch, collector: Collector, context: SlotContext, *, config: BaselineAnswersConfig
) -> Batch:
    """Return the batch with the baseline answer, verified and rewarded, in the groups that need it.

    The answer is external: no statistic of the policy counts it. Under reward `calibrated_scorer` with the same
    `demonstrators` its reward is 1/2 where it satisfies the constraints. Metric `baselines`: answers that joined.

    Source: Xu et al. 2024, The Perfect Blend (CGPO, arXiv:2409.20370), CRRAFT: without a response that satisfies all
    constraints the baseline answer is learned from, if it satisfies them.
    """
    from components.rl.batch.joining import regroup
    from components.rl.step.baselines import baseline_answers_of

    batch.require_single("guidance baseline_answers")
    has_reward = (batch.group_sum((batch.rewards > 0).long()) > 0).tolist()
    content = {group for group, found in zip(batch.group.tolist(), has_reward, strict=True) if found}
    asked = [
        prompt
        for group, prompt in enumerate(batch.prompts)
        if (config.when == "always" or group not in content)
        and (not config.domains or prompt.item.domain in config.domains)
    ]
    context.metrics["baselines"] = float(len(asked))
    if not asked:
        return batch
    texts = baseline_answers_of(asked, context, config)
    return regroup([batch, collector.score(collector.responses(asked, texts))])
