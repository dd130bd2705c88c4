"""The slots of an RL step: what an operator of each is given, and what it returns.

An operator is a pure function with a keyword-only `config`. Whatever it must remember between steps it keeps in
`context.memory`, which is saved for resume. Signatures (shapes as in components/rl/batch/batch.py):

    schedule     (settings: StepSettings, context) -> StepSettings                 first of all, at every step
    sampler      (pool: Sequence[Prompt], count: int, context) -> list[int]        indices into the pool
    rollout      (prompts: list[Prompt], collector: Collector, context) -> Batch
    reward       (batch: Batch, context) -> Tensor [S]                             rewards are summed
    guidance     (batch: Batch, collector: Collector, context) -> Batch
    filter       (batch: Batch, more: Callable[[int], Batch], context) -> Batch    run in the order given
    reference    (policies: Policies, context) -> Policy | None                    fills `reference_logprobs`
    advantage    (batch: Batch, context) -> Tensor [S] or [N], or a whole Batch    each sees the one before it
    replay       (batch: Batch, context) -> Sequence[Batch]                        each is learned from, in turn
    objective    (scores: TokenScores, batch: Batch, context) -> TokenLoss
    regularizer  (scores: TokenScores, batch: Batch, context) -> TokenLoss         losses are summed
    critic       (batch: Batch, context) -> Tensor [N]                             targets of `values`, after the update
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from components.contract.component import Params
from components.contract.errors import InputError
from components.contract.operators import Bound

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch, Prompt
    from components.rl.step.collector import Collector
    from components.rl.step.ledger import PassRates
    from components.rl.step.policies import Policies

Denominator = Literal["tokens", "responses", "groups", "constant"]


class SlotConfig(Params):
    """Base of operator configs. The class variables say what a step must prepare for the operator."""

    needs_entropy: ClassVar[bool] = False
    """Whether a loss reads `scores.entropies`, with its gradient."""
    needs_reference: ClassVar[bool] = False
    """Whether `batch.reference_logprobs` is read: by a loss, an advantage, a replay or a critic operator."""
    needs_values: ClassVar[bool] = False
    """Whether `batch.values` is read, by the same."""
    needs_processor: ClassVar[bool] = False
    """Whether it draws through a logits processor, which the native sampler has and an engine has not."""


class NoConfig(SlotConfig):
    """An operator without settings."""


class RewardConfig(SlotConfig):
    """Base of reward configs."""

    weight: float = 1.0
    """Factor of this reward in the sum of all."""


class AdvantageConfig(SlotConfig):
    """Base of advantage configs."""


class CriticConfig(SlotConfig):
    """Base of critic configs: how the value model is fitted to the targets that the operator returns."""

    learning_rate: float = Field(default=1e-4, gt=0)
    """AdamW's constant rate, after the warm-up."""
    warmup_steps: int = Field(default=0, ge=0)
    """Updates of the value model in which its rate rises linearly."""
    epochs: int = Field(default=1, ge=1)
    """Passes over a step's batch."""
    minibatches: int = Field(default=1, ge=1)
    """Updates per pass; whole groups go into each."""
    clip: float | None = Field(default=None, gt=0)
    """Values count at most this far from those before the update (PPO's value clipping); null for no bound."""
    clip_norm: float | None = Field(default=1.0, gt=0)
    """Largest norm of the value model's gradient; null leaves it as it is."""


class LossConfig(SlotConfig):
    """Base of configs of operators that make a loss."""


class ObjectiveConfig(LossConfig):
    """Base of objective configs: by what the sum of token losses is divided."""

    silent_at_zero: ClassVar[bool] = True
    """Whether a response whose advantages are all 0 has no gradient, so that the update may leave it out."""
    whole_groups: ClassVar[bool] = False
    """Whether a forward pass must hold all responses of a group, because the loss compares them."""
    denominator: Denominator = "tokens"
    """tokens: all tokens of the update. responses: mean over responses of each one's token mean. groups: mean over
    groups of each one's token mean. constant: responses times `constant`."""
    constant: int | None = Field(default=None, ge=1)
    """Divisor per response for denominator constant; by default the token limit `max_new_tokens`."""


class RegularizerConfig(LossConfig):
    """Base of regularizer configs."""

    coefficient: float = Field(default=0.01, ge=0)
    """Weight of the term in the loss; it is divided by the objective's denominator."""


@dataclass(frozen=True)
class TokenLoss:
    """A loss per token, before the denominator, and what is worth logging about it."""

    loss: Tensor
    """[N], differentiable."""
    metrics: Mapping[str, Tensor] = field(default_factory=dict)
    """Name -> [N] detached; logged as means over tokens."""


@dataclass(frozen=True)
class StepSettings:
    """How one step samples and learns; a schedule may change it from step to step."""

    prompts_per_step: int
    group_size: int
    max_new_tokens: int
    temperature: float
    learning_rate_scale: float = 1.0
    """Factor of the optimiser's scheduled learning rate."""


@dataclass(frozen=True)
class SlotContext:
    """What an operator may know besides its arguments."""

    step: int
    """From 0."""
    num_steps: int
    seed: int
    settings: StepSettings
    """Of this step."""
    memory: dict[str, Any]
    """The operator's own, JSON values only; empty at the first call, saved for resume."""
    ledger: PassRates
    """Outcomes of every prompt so far, an earlier stage's included where its ledger is an input. Read only."""
    collector: Collector
    """Draws, scores and probes with the trained policy during this step."""
    policies: Policies
    """The trained policy and those it may be compared with."""
    pool: Sequence[Prompt]
    """All prompts of the stage; a sampler is given those of its phase."""
    metrics: dict[str, float] = field(default_factory=dict)
    """What operators report of the step, by name; it joins the step's own metrics in the history."""
    minibatch: Batch | None = None
    """While a loss runs: the whole minibatch (on the CPU, responses without advantage included) that its batch is a
    part of. Quantiles and means over a batch are taken here, so that forward passes of any size give one result."""


@dataclass(frozen=True)
class Slots:
    """The operators of one run."""

    sampler: Bound
    rollout: Bound
    rewards: tuple[Bound, ...]
    guidance: Bound
    filters: tuple[Bound, ...]
    advantages: tuple[Bound, ...]
    objective: Bound
    regularizers: tuple[Bound, ...]
    reference: Bound
    schedule: Bound
    replay: Bound
    critic: Bound

    def __post_init__(self) -> None:
        _check(self.rewards, RewardConfig)
        _check((self.objective,), ObjectiveConfig)
        _check(self.regularizers, RegularizerConfig)
        if self.has_critic:
            _check((self.critic,), CriticConfig)
        if not self.rewards or not self.advantages:
            raise InputError("rl: at least one reward and one advantage operator are needed")
        if self.reference.name == "none" and (users := self.users_of("needs_reference")):
            raise InputError(f"rl: {', '.join(users)} compares with a reference policy, but reference is 'none'")
        if not self.has_critic and (users := self.users_of("needs_values")):
            raise InputError(f"rl: {', '.join(users)} reads a critic's values, but critic is 'none'")

    def places(self) -> Iterator[tuple[str, Bound]]:
        """Yield every operator with a name for its place, such as "filters/0/dynamic_sampling"."""
        for slot, filled in vars(self).items():
            for index, bound in enumerate((filled,) if isinstance(filled, Bound) else filled):
                yield f"{slot}/{index}/{bound.name}", bound

    def weighted_rewards(self) -> Iterator[tuple[float, Bound]]:
        """Yield the reward operators with their weights."""
        for bound in self.rewards:
            assert isinstance(bound.config, RewardConfig)
            yield bound.config.weight, bound

    @property
    def losses(self) -> tuple[Bound, ...]:
        """Return the objective and the regularizers."""
        return (self.objective, *self.regularizers)

    @property
    def objective_config(self) -> ObjectiveConfig:
        """Return the objective's config."""
        assert isinstance(self.objective.config, ObjectiveConfig)
        return self.objective.config

    @property
    def needs_entropy(self) -> bool:
        """Whether a loss reads the entropy of the trained policy."""
        return bool(self.users_of("needs_entropy"))

    @property
    def needs_reference(self) -> bool:
        """Whether an operator reads the log-probabilities of the reference policy."""
        return bool(self.users_of("needs_reference"))

    @property
    def has_critic(self) -> bool:
        """Whether a value model is kept."""
        return self.critic.name != "none"

    def users_of(self, need: str) -> list[str]:
        """Return the operators that say they need something, such as `needs_values`."""
        configs = ((bound.name, bound.config) for _, bound in self.places())
        return [name for name, config in configs if isinstance(config, SlotConfig) and getattr(config, need)]

    @property
    def silent_at_zero(self) -> bool:
        """Whether responses without advantage have no gradient at all: no regularizer acts on them either."""
        return self.objective_config.silent_at_zero and not self.regularizers


def _check(bounds: tuple[Bound, ...], base: type[Params]) -> None:
    for bound in bounds:
        if not isinstance(bound.config, base):
            raise InputError(f"{bound.slot} operator {bound.name!r}: its config must be a {base.__name__}")
