"""Parameters of the preference stage."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from components.contract.operators import OperatorSpec
from components.modeling.models.lora import LoraConfig
from components.modeling.text.overlong import Overlong
from components.modeling.training.training_config import OptimizerConfig, SupervisedConfig
from components.preference.loss_config import PreferenceLossConfig
from components.preference.slots import PREFERENCE_LOSS
from components.tasks.blocks import TagName


class PreferenceOptimizerConfig(OptimizerConfig):
    """The optimiser of preference optimisation."""

    peak_learning_rate: float = Field(default=1e-6, gt=0)
    """Highest learning rate, reached after warm-up. DPO of whole models is trained at 5e-7 to 1e-6, of adapters at ten
    times that; models of under a million weights need 1e-4 and more."""


class PreferenceParams(SupervisedConfig):
    """Parameters of preference optimisation."""

    preference_loss: Annotated[OperatorSpec, PREFERENCE_LOSS] = OperatorSpec(name="dpo")
    """What the model loses where it finds the worse response likelier."""
    epochs: float | None = 1.0
    """Passes over the examples, rounded up to whole steps; steps may be given instead."""
    batch_size: int = Field(default=64, ge=1)
    """Examples per optimiser step: pairs, labelled responses or lists of responses, as the loss compares them."""
    optimizer: PreferenceOptimizerConfig = PreferenceOptimizerConfig()
    """Optimiser and learning-rate schedule."""
    max_tokens: int = Field(default=1024, ge=2)
    """Longest prompt with its longest response in tokens; longer examples are left out and counted."""
    bad_rows: Literal["refuse", "drop"] = "refuse"
    """Whether a row with missing columns, equal sides or a wrong label ends the stage, or is left out and counted."""
    context_tags: tuple[TagName, ...] = ()
    """Tags whose blocks in a response are context, such as <tool> ... </tool> for what a tool said: they are read, and
    neither compared nor learnt, their tags included."""
    overlong: Overlong = "drop"
    """What becomes of a row of more than max_tokens, or than the model's positions: left out and counted, cut on the
    left as far as its responses stay whole, or refused with its number."""
    lora: LoraConfig | None = None
    """Train low-rank adapters instead of all weights; the output model has them merged."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Precision of the weights while they are trained."""

    @property
    def comparing(self) -> PreferenceLossConfig:
        """Return the config of the loss."""
        config = self.preference_loss.resolve().config
        assert isinstance(config, PreferenceLossConfig), "the slot checks it"
        return config

    @model_validator(mode="after")
    def _tags_are_taken(self) -> Self:
        if self.context_tags and self.comparing.divergence:
            raise ValueError(
                f"context_tags: preference_loss {self.preference_loss.name!r} estimates a divergence from whole "
                "responses to other prompts, and leaves nothing out of them"
            )
        return self

    @model_validator(mode="after")
    def _loss_is_whole(self) -> Self:
        if self.comparing.divergence and self.batch_size < 2:
            raise ValueError(
                f"preference_loss {self.preference_loss.name!r} estimates a divergence from other rows of the batch; "
                "set batch_size to 2 or more"
            )
        return self
