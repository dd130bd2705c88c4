"""Parameters of the pretrain stage."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from components.modeling.models.model_config import ModelConfig
from components.modeling.text.tokenizer_config import TokenizerConfig
from components.modeling.training.training_config import OptimizerConfig, SupervisedConfig


class PretrainParams(SupervisedConfig):
    """Parameters of language-model training."""

    architecture: ModelConfig = ModelConfig()
    """Sizes of the new model; unused when a model is given."""
    tokenizer: TokenizerConfig = TokenizerConfig()
    """How the new model's tokenizer is built; unused when a model is given."""
    steps: int | None = Field(default=500, ge=1)
    """Optimiser steps; epochs may be given instead."""
    optimizer: OptimizerConfig = OptimizerConfig(name="muon", peak_learning_rate=6e-3, schedule="cosine")
    """Optimiser and learning-rate schedule. AdamW alone needs several times the steps."""
    max_tokens: int = Field(default=1024, ge=2)
    """Longest sequence in tokens; longer texts are split, and every token stays a target once."""
    log_every: int = Field(default=5, ge=1)
    """Steps between rows of the training history; the last step always has one."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Precision of the weights while they are trained."""
