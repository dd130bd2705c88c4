"""Parameters of distillation, free of torch so that declarations can import them."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from components.contract.params import Params


class DistillationConfig(Params):
    """What the loss of a target is made of where a frozen teacher is matched."""

    teacher: Literal["start", "input"] = "start"
    """The teacher: the model that training starts from, or the one at input `teachers`."""
    divergence: float = Field(default=1.0, ge=0)
    """Weight of the Kullback-Leibler divergence of the model from the teacher."""
    cross_entropy: float = Field(default=0.0, ge=0)
    """Weight of the negative log-likelihood of the targets."""
    temperature: float = Field(default=1.0, gt=0)
    """Divides the logits of both in the divergence, which is multiplied by its square."""
    top_k: int | None = Field(default=None, ge=1)
    """Match the teacher's k likeliest tokens and the sum of the others alone; none matches the whole vocabulary."""

    @model_validator(mode="after")
    def _is_a_loss(self) -> Self:
        if not self.divergence:
            raise ValueError("divergence 0 leaves nothing to distil; leave `distillation` out, or set it above 0")
        return self
