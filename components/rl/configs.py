"""Base configs of rl operators: what a step must prepare for an operator, and the marks it writes."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from components.contract.errors import InputError
from components.contract.params import Params

Denominator = Literal["tokens", "responses", "groups", "constant"]


RENAMED = {"needs_reference": "reference_logprobs", "needs_values": "values"}


class SlotConfig(Params):
    """Base of operator configs. Class variables declare what a step must prepare for the operator, and what it writes.

    A mark is an entry of `batch.extras`; its name ends in `_s` (a value per response) or in `_n` (one per token).
    """

    reads: ClassVar[frozenset[str]] = frozenset()
    """What the batch must have: marks of earlier operators, `reference_logprobs`, `values`; for a loss also
    `current_logprob_n`, what the policy says just before the update, which costs a forward pass more for each."""
    takes: ClassVar[frozenset[str]] = frozenset()
    """Optional marks: read if present."""
    writes: ClassVar[frozenset[str]] = frozenset()
    """Marks that it adds to the batch."""
    clears: ClassVar[bool] = False
    """Whether the batch it returns drops the marks of earlier operators."""
    needs_entropy: ClassVar[bool] = False
    """Whether a loss reads `scores.entropies`, with its gradient."""
    step_entropies: ClassVar[bool] = False
    """Whether it reads `batch.entropies`, which are then at the step's temperature."""
    needs_processor: ClassVar[bool] = False
    """Whether it draws through a logits processor, which the native sampler supports and an engine does not."""
    draws_ahead: ClassVar[bool] = False
    """Whether an engine draws while the trainer trains, so that both stay in memory."""
    keeps_copy: ClassVar[bool] = False
    """Whether its reference policy is a separate copy beside the starting policy."""

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """Refuse flags that `reads` replaced: they would be ignored, and the operator would read NaN."""
        super().__pydantic_init_subclass__(**kwargs)
        for old, name in RENAMED.items():
            if old in vars(cls):
                raise InputError(f"{cls.__qualname__}: {old} is gone; write reads = frozenset({{{name!r}}})")


class NoConfig(SlotConfig):
    """An operator without settings."""


class RewardConfig(SlotConfig):
    """Base of reward configs."""

    weight: float = 1.0
    """Factor of this reward in the sum."""


class AdvantageConfig(SlotConfig):
    """Base of advantage configs."""


class CriticConfig(SlotConfig):
    """Base of critic configs: how the value model is fitted to the operator's targets."""

    learning_rate: float = Field(default=1e-4, gt=0)
    """AdamW's constant rate, after the warm-up."""
    warmup_steps: int = Field(default=0, ge=0)
    """Updates of the value model during which its rate rises linearly."""
    epochs: int = Field(default=1, ge=1)
    """Passes over a step's batch."""
    minibatches: int = Field(default=1, ge=1)
    """Updates per pass; whole groups go into each."""
    clip: float | None = Field(default=None, gt=0)
    """Maximum change of a value from before the update in the loss (PPO's value clipping); null for no bound."""
    denominator: Literal["tokens", "responses"] = "tokens"
    """What the squared errors are averaged over: all tokens of an update, or each response's first and then these."""
    clip_norm: float | None = Field(default=1.0, gt=0)
    """Largest norm of the value model's gradient; null leaves it as it is."""


class LossConfig(SlotConfig):
    """Base of configs of operators that return a loss."""


class ObjectiveConfig(LossConfig):
    """Base of objective configs: the denominator of the sum of token losses."""

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
    """Weight of the term in the loss."""
    denominator: Denominator | None = None
    """What divides the sum of the term over tokens, as for an objective; null: the objective's denominator."""
