"""Report curves of stages that train on given responses: the columns that the trainer logs."""

from __future__ import annotations

from components.contract.display import Curves

SUPERVISED_CURVES = Curves(
    title="Training", columns={"loss": "loss", "grad_norm": "gradient norm", "learning_rate": "learning rate"}
)
