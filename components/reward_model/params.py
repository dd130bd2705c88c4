"""Parameters of the reward_model stage."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from components.contract.operators import OperatorSpec
from components.modeling.models.lora import LoraConfig
from components.modeling.text.overlong import Overlong
from components.modeling.training.training_config import SupervisedConfig
from components.reward_model.slots import SCORER_LOSS


class RewardModelParams(SupervisedConfig):
    """Parameters of the training of a reward model."""

    epochs: float | None = 1.0
    """Passes over the rows, rounded up to whole steps; steps may be given instead. More than one overfits (Ouyang et
    al. 2022, appendix C.2)."""
    scorer_loss: Annotated[OperatorSpec, SCORER_LOSS] = OperatorSpec(name="bradley_terry")
    """What scores are fitted to, which says which kind of rows is read: pairs, labelled responses, or steps."""
    holdout: float = Field(default=0.1, ge=0, lt=1)
    """Share of the tasks whose rows are kept out of the training and measured, without an input `validation`."""
    overlong: Overlong = "drop"
    """What becomes of a row of more than max_tokens, or than the model's positions: left out and counted, cut on the
    left as far as its responses stay whole, or refused with its number."""
    lora: LoraConfig | None = None
    """Train low-rank adapters and the head instead of all weights; the output model has them merged."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Precision of the weights while they are trained."""

    @model_validator(mode="after")
    def _loss_is_known(self) -> Self:
        self.scorer_loss.resolve()
        return self
