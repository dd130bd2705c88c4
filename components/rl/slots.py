"""The slots of an RL step, each declared once, in the order of the step. Does not import torch: planning imports it.

An operator is a pure function with a keyword-only `config`; `call` gives its other arguments (shapes as in
components/rl/batch/batch.py). Every call ends with a SlotContext; an operator's state between steps lives in
`context.memory`, which is saved for resume. What a step must prepare for it, and the marks that operators exchange on
the batch, are class variables of its config; see components/rl/configs.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Generic, TypeVar, get_type_hints

from pydantic import ConfigDict

from components.contract.operators import Bound, OperatorSpec
from components.contract.slots import EMPTY, Plain, Slot
from components.rl.combine_config import CombineConfig
from components.rl.configs import (
    CriticConfig,
    Denominator,
    ObjectiveConfig,
    RegularizerConfig,
    RewardConfig,
    SlotConfig,
)
from components.rl.flow import check_flow
from components.rl.reward_names import check_parts

OPERATORS = f"{__package__}.operators"
CORRECTION = "truncated_importance"
"""The advantage operator that weighs tokens by what drew them."""
CURRENT = "current_logprob_n"
"""The mark that an update adds for a loss: the trained policy's log-probabilities before it, of the whole minibatch."""
AFTER = "after_token_s"
"""The mark that names a token to be scored behind each row; a loss that reads it gets `scores.after`."""
PREPARED = frozenset({"reference_logprobs", "values"})
"""Batch fields available from `annotate` on, filled by a reference policy and a critic."""

SCHEDULE = Slot(
    name="schedule",
    package=f"{OPERATORS}.schedules",
    summary="What changes from step to step",
    call="(settings: StepSettings, context) -> StepSettings, first of all at every step",
    default="constant",
)
SAMPLER = Slot(
    name="sampler",
    package=f"{OPERATORS}.samplers",
    summary="Which prompts a step trains on",
    call="(pool: Sequence[Prompt], count: int, context) -> list[int], indices into the pool",
    default="epoch_shuffle",
)
ROLLOUT = Slot(
    name="rollout",
    package=f"{OPERATORS}.rollouts",
    summary="How responses are drawn",
    call="(prompts: list[Prompt], collector: Collector, context) -> Batch",
    default="group",
    marks=True,
)
REWARD = Slot(
    name="reward",
    package=f"{OPERATORS}.rewards",
    summary="What a response is worth, part by part",
    call="(batch: Batch, context) -> Tensor [S], or [N] as received at each token; NaN is a failed verification",
    plain=Plain(
        call="(completions, prompts, **columns) -> a list with a number for each completion",
        takes="completions",
        adapter="components.rl.batch.completions:adapt",
    ),
    many=True,
    config=RewardConfig,
)
COMBINE = Slot(
    name="combine",
    package=f"{OPERATORS}.combines",
    summary="How the parts of the reward become one",
    call="(parts: Sequence[RewardPart], batch: Batch, context) -> Tensor [S] or [N]",
    config=CombineConfig,
    default="sum",
)
GUIDANCE = Slot(
    name="guidance",
    package=f"{OPERATORS}.guidance",
    summary="Help given to groups before they are learned from",
    call="(batch: Batch, collector: Collector, context) -> Batch",
    default=EMPTY,
    marks=True,
)
FILTER = Slot(
    name="filter",
    package=f"{OPERATORS}.filters",
    summary="Which responses are learned from: in order",
    call="(batch: Batch, more: Callable[[int], Batch], context) -> Batch",
    many=True,
    marks=True,
)
REFERENCE = Slot(
    name="reference",
    package=f"{OPERATORS}.references",
    summary="The policy that the trained one is compared with",
    call="(policies: Policies, context) -> Policy | None, asked only where an operator reads `reference_logprobs`",
    default=EMPTY,
    writes=frozenset({"reference_logprobs"}),
)
ANNOTATE = Slot(
    name="annotate",
    package=f"{OPERATORS}.annotate",
    summary="Marks on the batch for the operators behind it: in order",
    call="(batch: Batch, context) -> Batch with marks; advantages are not there yet",
    many=True,
    reads=PREPARED,
    marks=True,
)
ADVANTAGE = Slot(
    name="advantage",
    package=f"{OPERATORS}.advantages",
    summary="How much better a response was than expected: each sees the one before it",
    call="(batch: Batch, context) -> Tensor [S] or [N], or a whole Batch",
    many=True,
    reads=PREPARED,
    marks=True,
)
REPLAY = Slot(
    name="replay",
    package=f"{OPERATORS}.replays",
    summary="Which batches a step learns from, such as past ones beside its own",
    call="(batch: Batch, context) -> Sequence[Batch]; each is learned from, in turn",
    default=EMPTY,
    reads=PREPARED,
    marks=True,
)
OBJECTIVE = Slot(
    name="objective",
    package=f"{OPERATORS}.objectives",
    summary="The policy-gradient loss per token, and its denominator",
    call="(scores: TokenScores, batch: Batch, context) -> TokenLoss",
    config=ObjectiveConfig,
    reads=PREPARED | {CURRENT},
)
REGULARIZER = Slot(
    name="regularizer",
    package=f"{OPERATORS}.regularizers",
    summary="Terms added to the loss: the sum of these",
    call="(scores: TokenScores, batch: Batch, context) -> TokenLoss; losses are summed",
    many=True,
    config=RegularizerConfig,
    reads=PREPARED | {CURRENT},
)
CRITIC = Slot(
    name="critic",
    package=f"{OPERATORS}.critics",
    summary="What a value model is fitted to, where the method has one",
    call="(batch: Batch, context) -> Tensor [N], targets of `values`, after the update",
    config=CriticConfig,
    default=EMPTY,
    reads=PREPARED,
    writes=frozenset({"values"}),
)

One = TypeVar("One")


@dataclass(frozen=True)
class StepSlots(Generic[One]):
    """What fills the slots of a step, in its order; used by presets, a recipe's overrides and the loop."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    schedule: Annotated[One, SCHEDULE]
    sampler: Annotated[One, SAMPLER]
    rollout: Annotated[One, ROLLOUT]
    rewards: Annotated[tuple[One, ...], REWARD]
    combine: Annotated[One, COMBINE]
    guidance: Annotated[One, GUIDANCE]
    filters: Annotated[tuple[One, ...], FILTER]
    reference: Annotated[One, REFERENCE]
    annotate: Annotated[tuple[One, ...], ANNOTATE]
    advantages: Annotated[tuple[One, ...], ADVANTAGE]
    replay: Annotated[One, REPLAY]
    objective: Annotated[One, OBJECTIVE]
    regularizers: Annotated[tuple[One, ...], REGULARIZER]
    critic: Annotated[One, CRITIC]

    def filled(self) -> Iterator[tuple[str, Slot, tuple[One, ...]]]:
        """Yield key, slot and operators of every slot, in the order of the step."""
        for key, slot in step_slots().items():
            given = vars(self)[key]
            yield key, slot, given if slot.many else (given,)


@cache
def step_slots() -> dict[str, Slot]:
    """Return key -> slot, in the order of the step. Presets and a stage's parameters use the same keys."""
    hints = get_type_hints(StepSlots, include_extras=True)
    return {key: hint.__metadata__[0] for key, hint in hints.items() if hasattr(hint, "__metadata__")}


SlotSpecs = StepSlots[OperatorSpec]
"""Which operators fill the slots, as a preset or a recipe writes them."""


@dataclass(frozen=True)
class Slots(StepSlots[Bound]):
    """The operators of one run. Raises InputError for operators that do not fit together."""

    def __post_init__(self) -> None:
        check_flow([(slot, bounds) for _, slot, bounds in self.filled()])
        check_parts(self.rewards, self.combine)

    def places(self) -> Iterator[tuple[str, Bound]]:
        """Yield every operator with the name of its position, such as "filters/0/dynamic_sampling"."""
        for key, _, bounds in self.filled():
            for index, bound in enumerate(bounds):
                yield f"{key}/{index}/{bound.name}", bound

    @property
    def losses(self) -> tuple[Bound, ...]:
        """Return the objective and the regularizers."""
        return (self.objective, *self.regularizers)

    @property
    def objective_config(self) -> ObjectiveConfig:
        """Return the objective's config."""
        assert isinstance(self.objective.config, ObjectiveConfig)
        return self.objective.config

    def denominator_of(self, loss: Bound) -> Denominator | None:
        """Return the denominator of a regularizer that has one of its own."""
        return loss.config.denominator if isinstance(loss.config, RegularizerConfig) else None

    @property
    def needs_entropy(self) -> bool:
        """Whether a loss reads the entropy of the trained policy."""
        return bool(self.users_of("needs_entropy"))

    @property
    def needs_reference(self) -> bool:
        """Whether an operator reads the log-probabilities of the reference policy."""
        return any("reference_logprobs" in config.reads for _, config in self._configs())

    @property
    def needs_current(self) -> bool:
        """Whether a loss reads the log-probabilities of the policy before each update."""
        return any(CURRENT in config.reads for _, config in self._configs())

    @property
    def needs_after(self) -> bool:
        """Whether a loss reads the probability of a token behind each response."""
        return any(AFTER in config.reads for bound in self.losses if isinstance(config := bound.config, SlotConfig))

    @property
    def has_critic(self) -> bool:
        """Whether a value model is kept."""
        return self.critic.name != EMPTY

    @property
    def silent_at_zero(self) -> bool:
        """Whether responses without advantage have no gradient at all, from regularizers either."""
        return self.objective_config.silent_at_zero and not self.regularizers

    @property
    def corrects_itself(self) -> bool:
        """Whether an operator answers for what drew the tokens: it weighs them, or changes logits by intent."""
        return any(b.name == CORRECTION for b in self.advantages) or bool(self.users_of("needs_processor"))

    def users_of(self, need: str) -> list[str]:
        """Return the operators whose config sets a flag, such as `needs_entropy`."""
        return [name for name, config in self._configs() if getattr(config, need)]

    def _configs(self) -> Iterator[tuple[str, SlotConfig]]:
        for _, bound in self.places():
            if isinstance(bound.config, SlotConfig):
                yield bound.name, bound.config
