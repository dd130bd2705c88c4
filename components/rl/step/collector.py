"""Drawing and verifying responses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from components.modeling.generation.sampler import Sampler
from components.modeling.models.policy import Policy
from components.rl.batch.batch import FAILED, RIGHT, Batch, Prompt
from components.rl.batch.reward_part import RewardPart
from components.rl.step.drawing import Drawing
from components.rl.step.judging import Judge
from components.rl.step.ledger import PassRates, count_outcomes
from components.rl.step.reward_parts import PartMeans, placed, with_rewards
from components.rl.step.rollout_queue import RolloutQueue
from components.rl.step.settings import StepSettings


class Collector(Drawing):
    """Draws and scores responses for the operators of one step, and counts the verified outcomes."""

    def __init__(
        self,
        policy: Policy,
        settings: StepSettings,
        *,
        generator: torch.Generator,
        ledger: PassRates,
        reward: Callable[[Batch], Tensor],
        max_tokens: int,
        sampler: Sampler | None = None,
        ahead: RolloutQueue | None = None,
        steps_left: int = 1,
    ) -> None:
        """`reward` gives [S] or [N] for a verified batch, NaN where it cannot say; the rest as in Drawing."""
        super().__init__(
            policy,
            settings,
            generator=generator,
            max_tokens=max_tokens,
            sampler=sampler,
            ahead=ahead,
            steps_left=steps_left,
        )
        self.seen: list[Batch] = []
        """Every scored batch of the step, failed verifications included."""
        self.seen_parts: list[dict[str, Tensor]] = []
        """For each batch of `seen`: reward by operator, weights included, each [S]; NaN where there is none."""
        self.reward_parts: Sequence[RewardPart] = ()
        """The parts of the latest rewards, as `reward` notes them."""
        self.part_means = PartMeans()
        self.metrics: dict[str, float] = {}
        """Metrics that operators report for the step."""
        self._judge = Judge()
        self._ledger, self._reward = ledger, reward

    def score(self, batch: Batch) -> Batch:
        """Verify and reward every response; return the ones that could be verified.

        Failed verifications are counted and recorded but enter no statistic and no loss; a reward of NaN is one, too.
        Responses to unlabelled items are rewarded without an outcome. External responses are recorded but not entered
        in the ledger.
        """
        batch = replace(batch, outcomes=self.outcomes(batch))
        verified = batch.outcomes != FAILED
        kept = batch if bool(verified.all()) else batch.select(verified)
        kept = with_rewards(kept, self._reward(kept))
        rewards = placed(kept.rewards, verified)
        outcomes = batch.outcomes.masked_fill(rewards.isnan(), FAILED)
        scored = replace(batch, rewards=rewards, outcomes=outcomes)
        count_outcomes(self._ledger, scored)
        self.seen.append(scored)
        self.seen_parts.append({part.name: placed(part.weighted, verified) for part in self.reward_parts})
        self.part_means.add(self.reward_parts, kept)
        return self._rewarded(kept)

    def _rewarded(self, batch: Batch) -> Batch:
        """Return the responses that have a reward; note why the others have none."""
        unsure = batch.rewards.isnan()
        if not bool(unsure.any()):
            return batch
        for row in unsure.nonzero().squeeze(1).tolist():
            names = [part.name for part in self.reward_parts if bool(part.value[row].isnan())]
            item = batch.prompts[int(batch.group[row])].item
            self._judge.fail(item.id, batch.texts[row], f"reward {', '.join(names)} is NaN")
        return batch.select(~unsure)

    def probe(self, prompts: Sequence[Prompt], num_samples: int) -> Tensor:
        """Return [P]: the share of right responses among the verified ones of `num_samples` per prompt, NaN if none.

        They count as samples and enter the ledger, but are not rewarded, recorded or learned from.
        """
        batch = self.draw(prompts, num_samples, to_learn=False)
        batch = replace(batch, outcomes=self.outcomes(batch), rewards=torch.full((batch.num_responses,), torch.nan))
        count_outcomes(self._ledger, batch)
        self.num_probes += batch.num_responses
        right, verified = (torch.zeros(len(prompts)) for _ in range(2))
        right.index_add_(0, batch.group, (batch.outcomes == RIGHT).float())
        verified.index_add_(0, batch.group, (batch.outcomes != FAILED).float())
        return right / verified

    def outcomes(self, batch: Batch) -> Tensor:
        """Return [S]: the outcome of every response, which is neither counted nor recorded."""
        return torch.tensor([outcome for outcome, _ in self._judge.verdicts(batch)])

    def scores(self, batch: Batch) -> Tensor:
        """Return [S]: the grade in [0, 1] of every response; 1 or 0 where its verifier gives no partial credit.

        NaN for unlabelled items.
        """
        return torch.tensor([score for _, score in self._judge.verdicts(batch)], dtype=torch.float32)

    @property
    def judge(self) -> Judge:
        """Return what verified the step's responses."""
        return self._judge

    def reason(self, batch: Batch, row: int) -> str:
        """Return why a scored response was not right, in the verifier's words; empty if it was."""
        return self._judge.reason(batch.prompts[int(batch.group[row])].item.id, batch.texts[row])
