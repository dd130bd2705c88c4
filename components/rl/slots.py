"""The slots of an RL step: what an operator of each is given, and what it returns.

An operator is a pure function with a keyword-only `config`. Whatever it must remember between steps it keeps in
`context.memory`, which is saved for resume. Signatures (shapes as in components/rl/batch.py):

    sampler      (pool: Sequence[Prompt], count: int, context) -> list[int]        indices into the pool
    rollout      (prompts: list[Prompt], collector: Collector, context) -> Batch
    reward       (batch: Batch, context) -> Tensor [S]                             rewards are summed
    guidance     (batch: Batch, collector: Collector, context) -> Batch
    filter       (batch: Batch, more: Callable[[int], Batch], context) -> Batch    run in the order given
    advantage    (batch: Batch, context) -> Tensor [S] or [N]                      each sees the one before it
    objective    (scores: TokenScores, batch: Batch, context) -> TokenLoss
    regularizer  (scores: TokenScores, batch: Batch, context) -> TokenLoss         losses are summed
    reference    (policies: Policies, context) -> Policy | None
    schedule     (settings: StepSettings, context) -> StepSettings                 first of all, at every step
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from components.contract.component import Params
from components.contract.errors import InputError
from components.contract.operators import Bound

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.ledger import PassRates

Denominator = Literal["tokens", "responses", "groups", "constant"]


class NoConfig(Params):
    """An operator without settings."""


class RewardConfig(Params):
    """Base of reward configs."""

    weight: float = 1.0
    """Factor of this reward in the sum of all."""


class LossConfig(Params):
    """Base of configs of operators that make a loss. The class variables say what the update must prepare."""

    needs_entropy: ClassVar[bool] = False
    """Whether `scores.entropies` is read, with its gradient."""
    needs_reference: ClassVar[bool] = False
    """Whether `batch.reference_logprobs` is read."""


class ObjectiveConfig(LossConfig):
    """Base of objective configs: by what the sum of token losses is divided."""

    silent_at_zero: ClassVar[bool] = True
    """Whether a response whose advantages are all 0 has no gradient, so that the update may leave it out."""
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
    """How one step samples; a schedule may change it from step to step."""

    prompts_per_step: int
    group_size: int
    max_new_tokens: int
    temperature: float


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
    """Outcomes of every prompt so far in this stage. Read only."""


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

    def __post_init__(self) -> None:
        _check(self.rewards, RewardConfig)
        _check((self.objective,), ObjectiveConfig)
        _check(self.regularizers, RegularizerConfig)
        if not self.rewards or not self.advantages:
            raise InputError("rl: at least one reward and one advantage operator are needed")
        if self.needs_reference and self.reference.name == "none":
            users = [bound.name for bound in self.losses if _loss_config(bound).needs_reference]
            raise InputError(f"rl: {', '.join(users)} compares with a reference policy, but reference is 'none'")

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
        return any(_loss_config(bound).needs_entropy for bound in self.losses)

    @property
    def needs_reference(self) -> bool:
        """Whether a loss reads the log-probabilities of the reference policy."""
        return any(_loss_config(bound).needs_reference for bound in self.losses)

    @property
    def silent_at_zero(self) -> bool:
        """Whether responses without advantage have no gradient at all: no regularizer acts on them either."""
        return self.objective_config.silent_at_zero and not self.regularizers


def _loss_config(bound: Bound) -> LossConfig:
    assert isinstance(bound.config, LossConfig)
    return bound.config


def _check(bounds: tuple[Bound, ...], base: type[Params]) -> None:
    for bound in bounds:
        if not isinstance(bound.config, base):
            raise InputError(f"{bound.slot} operator {bound.name!r}: its config must be a {base.__name__}")
