"""From a batch with advantages to updates of the policy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from components.contract.operators import Bound
from components.modeling.models.policy import Policy
from components.modeling.training.trainer import Trainer
from components.rl.batch.batch import Batch
from components.rl.batch.token_loss import TokenLoss
from components.rl.configs import Denominator
from components.rl.slots import CURRENT, Slots
from components.rl.step.context import SlotContext
from components.rl.step.diagnostics import PartTally, UpdateTally, tally_part
from components.rl.step.returned import of_kind
from components.rl.step.sampler_gap import SamplerGap
from components.rl.step.scoring import frozen_logprobs, micro_rows, score_tokens
from components.rl.step.settings import StepSettings
from components.rl.step.states import score_with_after


@dataclass(frozen=True)
class Passes:
    """How a batch is split into updates and forward passes."""

    minibatches: int
    """Updates per pass."""
    epochs: int
    """Passes over a batch."""
    micro_batch_tokens: int
    """Maximum tokens in one forward pass."""

    @property
    def updates(self) -> int:
        """Return the maximum number of updates in one step."""
        return self.minibatches * self.epochs


class Learner:
    """Splits batches into minibatches, and minibatches into forward passes; one optimiser update per minibatch."""

    def __init__(self, policy: Policy, trainer: Trainer, slots: Slots, passes: Passes) -> None:
        self.policy, self.trainer, self.slots, self.passes = policy, trainer, slots, passes

    def learn(
        self,
        batches: Sequence[Batch],
        settings: StepSettings,
        context_of: Callable[[Bound], SlotContext],
        *,
        first_update: int,
        gap: SamplerGap | None = None,
    ) -> dict[str, float]:
        """Update the policy on each batch in turn and return metrics over the tokens that had a gradient.

        A minibatch without gradient makes no update, not even of the optimiser's averages, but still takes an update
        number: `first_update`, and so the learning rate, depend on the step alone. All batches of a step share its
        update numbers. Tokens that are not learned are context only. `gap` gets the sampler's gap of the first update.
        """
        tally = UpdateTally()
        for batch in (whole.of_learned() for whole in batches):
            for epoch in range(self.passes.epochs):
                for index, minibatch in enumerate(minibatches(batch, self.passes.minibatches)):
                    number = first_update + epoch * self.passes.minibatches + index
                    self._update(minibatch, settings, context_of, tally, number, gap if tally.is_untouched else None)
        return tally.metrics()

    def _update(
        self,
        minibatch: Batch,
        settings: StepSettings,
        context_of: Callable[[Bound], SlotContext],
        tally: UpdateTally,
        number: int,
        gap: SamplerGap | None,
    ) -> None:
        weighted = self._weighted(self._with_current(minibatch, settings), settings)
        active = self._with_gradient(weighted)
        if not active.num_responses:
            tally.skip_update()
            return

        def loss_context(bound: Bound) -> SlotContext:
            return replace(context_of(bound), minibatch=weighted)

        self._accumulate(active, settings, loss_context, tally, gap)
        tally.add_update(self.trainer.step(number, scale=settings.learning_rate_scale))

    def _with_current(self, minibatch: Batch, settings: StepSettings) -> Batch:
        """Mark what the policy says of every token now, if a loss compares tokens of the minibatch by it."""
        if not minibatch.num_tokens or not self.slots.needs_current:
            return minibatch

        def score() -> Tensor:
            most = self.passes.micro_batch_tokens
            return frozen_logprobs(self.policy, minibatch, temperature=settings.temperature, max_tokens=most)

        return minibatch.with_extras(**{CURRENT: self.trainer.evaluate(score)})

    def _weighted(self, minibatch: Batch, settings: StepSettings) -> Batch:
        config = self.slots.objective_config
        constant = config.constant or settings.max_new_tokens
        own = {self.slots.denominator_of(bound) for bound in self.slots.losses} - {None}
        marks = {_mark(name): token_weights(minibatch, name, constant) for name in own if name}
        return replace(minibatch.with_extras(**marks), weights=token_weights(minibatch, config.denominator, constant))

    def _weights(self, bound: Bound, part: Batch) -> Tensor:
        """Return [N]: 1 / denominator of one loss; a regularizer may have its own."""
        own = self.slots.denominator_of(bound)
        return part.extras[_mark(own)] if own else part.weights

    def _with_gradient(self, weighted: Batch) -> Batch:
        """Drop responses that contribute nothing to the loss; the weights still count them."""
        if not self.slots.silent_at_zero:
            return weighted
        active = weighted.response_sum(weighted.advantages.abs()) > 0
        if self.slots.objective_config.whole_groups:
            active = weighted.group_sum(active.long()) > 0
        return weighted.select(active)

    def _accumulate(
        self,
        batch: Batch,
        settings: StepSettings,
        context_of: Callable[[Bound], SlotContext],
        tally: UpdateTally,
        gap: SamplerGap | None,
    ) -> None:
        whole_groups = self.slots.objective_config.whole_groups
        max_tokens, ranks = self.passes.micro_batch_tokens, self.trainer.ranks.count

        def loss_of(rows: Tensor) -> tuple[Tensor, PartTally]:
            part = batch.select(rows).to(self.policy.device)
            score = score_with_after if self.slots.needs_after else score_tokens
            scores = score(self.policy, part, temperature=settings.temperature, entropy=self.slots.needs_entropy)
            losses = [of_kind(bound, bound(scores, part, context_of(bound)), TokenLoss) for bound in self.slots.losses]
            pairs = zip(self.slots.losses, losses, strict=True)
            loss = torch.stack([(found.loss * self._weights(bound, part)).sum() for bound, found in pairs]).sum()
            return loss, tally_part(part, scores, losses, loss, with_gap=gap is not None)

        parts = micro_rows(batch, max_tokens, whole_groups=whole_groups, ranks=ranks)
        for told in self.trainer.accumulate(parts, loss_of):
            tally.add_part(told)
            if gap is not None and told.gap is not None:
                gap.add_update(told.gap)


def _mark(denominator: Denominator) -> str:
    return f"weight_by_{denominator}_n"


def token_weights(batch: Batch, denominator: Denominator, constant: int) -> Tensor:
    """Return [N]: 1 / denominator for every token, so that the loss is a plain weighted sum.

    tokens: 1 / N.  responses: 1 / (T * length of the trajectory).  groups: 1 / (P * tokens of the group).
    constant: 1 / (T * constant). The batch holds learned tokens only.
    """
    if denominator == "tokens":
        return torch.full((batch.num_tokens,), 1.0 / max(1, batch.num_tokens))
    if denominator == "responses":
        return batch.to_tokens(1.0 / (batch.response_lengths * batch.num_traces))
    if denominator == "groups":
        return batch.to_tokens(1.0 / (batch.group_sum(batch.response_lengths) * batch.num_prompts))
    return torch.full((batch.num_tokens,), 1.0 / max(1, batch.num_traces * constant))


def minibatches(batch: Batch, count: int) -> Iterator[Batch]:
    """Split into `count` runs of whole groups, with group counts as equal as possible."""
    if count == 1:
        yield batch
        return
    for index in range(count):
        start, end = (batch.num_prompts * border // count for border in (index, index + 1))
        yield batch.select((batch.group >= start) & (batch.group < end))
