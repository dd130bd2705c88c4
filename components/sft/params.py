"""Parameters of the sft stage."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import model_validator

from components.modeling.models.lora import LoraConfig
from components.modeling.supervised.distillation_config import DistillationConfig
from components.modeling.text.overlong import Overlong
from components.modeling.training.training_config import SupervisedConfig
from components.sft.transfer_config import TransferConfig


class SftParams(SupervisedConfig):
    """Parameters of supervised fine-tuning."""

    epochs: float | None = 3.0
    """Passes over the demonstrations, rounded up to whole steps; steps may be given instead."""
    learn: Literal["last", "all", "marked"] = "all"
    """Which turns of the assistant the loss covers in rows with messages: the last one, all, or those whose message has
    `learn: true`. Of a prompt with a response it is the response."""
    bad_rows: Literal["refuse", "drop"] = "refuse"
    """Whether a row with a blank response, with a control mark of the model within its text, or with messages that
    cannot be read ends the stage, or is left out and counted."""
    overlong: Overlong = "drop"
    """What becomes of a demonstration of more than max_tokens, or than the model's positions: left out and counted, cut
    on the left as far as its last response stays whole, or refused with its row."""
    lora: LoraConfig | None = None
    """Train low-rank adapters instead of all weights; the output model has them merged."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Precision of the weights while they are trained."""
    distillation: DistillationConfig | None = None
    """Match a frozen teacher at each target instead of the target alone. It reads a row's `teacher_prompt` in the place
    of the prompt."""
    transfer: TransferConfig | None = None
    """Train copies on each domain but one, and go towards those that lower the loss of that one (meta-transfer)."""

    @model_validator(mode="after")
    def _transfer_fits(self) -> Self:
        if self.transfer is None:
            return self
        if self.steps is None:
            raise ValueError("transfer: give its length as `steps`; the tasks have epochs of their own")
        if self.mixture:
            raise ValueError("transfer: the tasks are weighed by what they do for the target; leave `mixture` out")
        if self.dtype != "float32":
            raise ValueError("transfer: copies differ by less than bfloat16 can tell; set `dtype: float32`")
        self.transfer.weighting.resolve()
        return self
