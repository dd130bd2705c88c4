"""Declaration of the sft stage."""

from __future__ import annotations

from typing import Literal

from components.contract.artifacts import ArtifactType
from components.contract.component import Component, Port
from components.modeling.lora import LoraConfig
from components.modeling.supervised_memory import supervised_memory
from components.modeling.training_config import SupervisedConfig


class SftParams(SupervisedConfig):
    """Parameters of supervised fine-tuning."""

    epochs: float | None = 3.0
    """Passes over the demonstrations, rounded up to whole steps; steps may be given instead."""
    lora: LoraConfig | None = None
    """Train low-rank adapters instead of all weights; the output model has them merged."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Precision of the weights while they are trained."""


COMPONENT = Component(
    name="sft",
    summary="Supervised fine-tuning: next-token loss on the responses of demonstrations",
    inputs={
        "model": Port(type=ArtifactType.MODEL, doc="The model to start from"),
        "dataset": Port(type=ArtifactType.DATASET, doc="Demonstrations (prompt and response)", many=True),
        "validation": Port(
            type=ArtifactType.DATASET, doc="Demonstrations to measure the loss on", many=True, optional=True
        ),
    },
    outputs={
        "model": Port(type=ArtifactType.MODEL, doc="The fine-tuned model"),
        "metrics": Port(type=ArtifactType.METRICS, doc="Final losses, and a row per logged step"),
        "checkpoints": Port(type=ArtifactType.CHECKPOINTS, doc="Models kept along the way (save_every)", optional=True),
    },
    params=SftParams,
    run="components.sft.run:run",
    backends=frozenset({"trainer"}),
    memory=supervised_memory,
    preloads=("torch", "transformers"),
    metrics={
        "loss": "Loss per target token, mean of the last 10 logged steps",
        "validation_loss": "Loss per target token on the validation input",
        "epochs": "Passes over the examples",
        "num_examples": "Examples that were drawn from",
        "padding_avoided": "Share of padding that batches would have had as rectangles",
        "num_targets": "Target tokens trained on, repeats included",
        "num_overlong": "Demonstrations left out because they exceed max_tokens",
    },
)
