"""Training backends behind one interface: plain torch, replicas, DeepSpeed's ZeRO."""

from components.modeling.training.build import build_trainer
from components.modeling.training.trainer import Trainer

__all__ = ["Trainer", "build_trainer"]
