"""Parameters of supervised training and its optimisers, free of torch so that declarations can import
them."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field, model_validator

from components.contract.params import Params


class ScheduleConfig(Params):
    """How the learning rate moves over the steps of a stage."""

    peak_learning_rate: float = Field(default=3e-4, gt=0)
    """Highest learning rate, reached after warm-up."""
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    """What follows the warm-up: no change, or a linear or half-cosine fall to the floor at the last step."""
    warmup_steps: int = Field(default=0, ge=0)
    """Steps in which the learning rate rises linearly to its peak."""
    floor_ratio: float = Field(default=0.0, ge=0, le=1)
    """Lowest learning rate of a falling schedule as a share of the peak."""


LARGEST_RATES = {"match_rms_adamw": 0.1, "original": 1.0}
"""Highest peak learning rates that can be meant: about 30 times what is usual for the smallest models, 3e-3 of AdamW
and of Muon with its scale, .03 of Muon with its original one. Larger models take less."""


class OptimizerConfig(ScheduleConfig):
    """Which optimiser updates the weights, and how."""

    name: Literal["adamw", "muon"] = "adamw"
    """adamw for all parameters, or muon for the matrices inside the network and adamw for the rest."""
    weight_decay: float = Field(default=0.0, ge=0)
    """Decoupled weight decay, on matrices only: norms and biases are never decayed."""
    betas: tuple[float, float] = (0.9, 0.95)
    """AdamW's decay rates of the first and second moment."""
    eps: float = Field(default=1e-8, gt=0)
    """AdamW's term that keeps the denominator from zero."""
    momentum: float = Field(default=0.95, ge=0, lt=1)
    """Muon's momentum (Nesterov's form)."""
    muon_scale: Literal["match_rms_adamw", "original"] = "match_rms_adamw"
    """Size of Muon's step: 0.2 sqrt(max(rows, columns)), which shares AdamW's learning rate (Moonlight,
    section 2.2), or sqrt(max(1, rows / columns)) of Jordan's original."""
    clip_norm: float | None = Field(default=1.0, gt=0)
    """Largest norm of the whole gradient; null leaves it as it is."""

    @model_validator(mode="after")
    def _rate_can_be_meant(self) -> Self:
        largest = LARGEST_RATES[self.muon_scale if self.name == "muon" else "match_rms_adamw"]
        if self.peak_learning_rate > largest:
            raise ValueError(
                f"peak_learning_rate: {self.peak_learning_rate:g} is more than 30 times what {self.name} usually takes "
                f"even for tiny models, and the training would diverge; write {largest:g} or less, such as 1.0e-3 for "
                "a tiny model, 1.0e-5 for one of billions of parameters"
            )
        return self


class SupervisedConfig(Params):
    """A supervised training run over tokenised examples."""

    steps: int | None = Field(default=None, ge=1)
    """Optimiser steps; exactly one of steps and epochs is given."""
    epochs: float | None = Field(default=None, gt=0)
    """Passes over the examples, rounded up to whole steps."""
    batch_size: int = Field(default=64, ge=1)
    """Sequences per optimiser step."""
    optimizer: OptimizerConfig = OptimizerConfig()
    """Optimiser and learning-rate schedule."""
    mixture: dict[str, float] = Field(default_factory=dict)
    """Share of each domain in what is trained on; domains left out are not used. Empty: as the data is."""
    max_tokens: int = Field(default=1024, ge=2)
    """Longest example in tokens; longer ones are left out and counted."""
    micro_batch_tokens: int = Field(default=16384, ge=1)
    """Most tokens in one forward pass (a longer example is alone in its own); bounds memory, not the
    result."""
    log_every: int = Field(default=1, ge=1)
    """Steps between rows of the training history; the last step always has one."""
    checkpoint_every: int | None = Field(default=None, ge=0)
    """Steps between partial checkpoints, from which a killed stage resumes; 0 for none. Without this and minutes: as
    often as they take less than 2 % of the time."""
    checkpoint_minutes: float | None = Field(default=None, gt=0)
    """Minutes between partial checkpoints, beside those of `checkpoint_every`."""
    save_every: int = Field(default=0, ge=0)
    """Steps between models kept in the checkpoints output, the last step included; 0 for none."""

    @model_validator(mode="before")
    @classmethod
    def _given_length_wins(cls, values: Any) -> Any:
        """Let steps replace a default of epochs, and the other way round."""
        if not isinstance(values, dict):
            return values
        given = [name for name in ("steps", "epochs") if values.get(name) is not None]
        return {**values, "steps" if given == ["epochs"] else "epochs": None} if len(given) == 1 else values

    @model_validator(mode="after")
    def _one_length(self) -> Self:
        if (self.steps is None) == (self.epochs is None):
            raise ValueError("give exactly one of steps and epochs")
        if self.mixture and min(self.mixture.values()) <= 0:
            raise ValueError("mixture: every share must be above 0; leave a domain out to skip it")
        return self
