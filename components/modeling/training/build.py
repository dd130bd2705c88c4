"""From a job's backends to a trainer."""

from __future__ import annotations

from components.contract.backends import Backends
from components.contract.errors import InputError
from components.modeling.models.policy import Policy
from components.modeling.ranks import Ranks, current_ranks
from components.modeling.training.optimizer import build_optimizer
from components.modeling.training.plain import ReplicaTrainer, TorchTrainer
from components.modeling.training.trainer import Trainer
from components.modeling.training.training_config import OptimizerConfig


def build_trainer(
    policy: Policy,
    config: OptimizerConfig,
    *,
    total_steps: int,
    backends: Backends | None = None,
    ranks: Ranks | None = None,
) -> Trainer:
    """Return the trainer of `policy`: plain torch unless `backends` ask for DeepSpeed or FSDP.

    One process has nothing to shard: under FSDP, too, it is plain torch.

    Raises InputError when no parameter is trainable, when the optimiser cannot be sharded as asked, or when passes of
    the model cannot be divided over a context group.
    """
    backends, ranks = backends or Backends(), ranks or current_ranks()
    if backends.context_parallel > 1 and not policy.divisible:
        raise InputError(
            f"context_parallel {backends.context_parallel}: a pass of a model on transformers is not divided over "
            "ranks; take a model of the native decoder's families, or leave it out"
        )
    if backends.recompute:
        policy.recompute_layers()
    if backends.trainer == "deepspeed" and backends.zero_stage:
        from components.modeling.training.zero import ZeroTrainer

        return ZeroTrainer(policy, config, total_steps=total_steps, backends=backends, ranks=ranks)
    if backends.trainer == "fsdp" and ranks.all.count > 1:
        from components.modeling.training.fsdp import FsdpTrainer

        return FsdpTrainer(policy, config, total_steps=total_steps, backends=backends, ranks=ranks)
    optimizer = build_optimizer(policy.module, config, total_steps=total_steps, row_blocks=policy.row_blocks())
    return (ReplicaTrainer if ranks.count > 1 else TorchTrainer)(policy, optimizer, ranks)
