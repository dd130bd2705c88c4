"""DeepSpeed's ZeRO 1 to 3: optimiser states, then also gradients, then also weights are sharded over the ranks.

Rajbhandari et al. 2020 (arXiv:1910.02054), section 5; offload to the host: Ren et al. 2021 (arXiv:2101.06840).
"""

from __future__ import annotations

import logging
import math
import os
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from typing import Any

import torch
from torch import Tensor, nn

from components.contract.backends import Backends
from components.contract.errors import InputError, NotFiniteError
from components.modeling.models.policy import Gather, Policy, held
from components.modeling.ranks import Ranks
from components.modeling.training.compute import Compute
from components.modeling.training.layer_gather import zero_modules
from components.modeling.training.optimizer import Update, adamw, gradient_failure, learning_rate
from components.modeling.training.trainer import P, R, Trainer
from components.modeling.training.training_config import OptimizerConfig
from components.modeling.training.zero_state import ZeroState


class ZeroTrainer(Trainer):
    """AdamW under DeepSpeed; the policy's weights are the engine's, so sampling and scoring need no copy."""

    def __init__(
        self, policy: Policy, config: OptimizerConfig, *, total_steps: int, backends: Backends, ranks: Ranks
    ) -> None:
        if reason := backends.optimizer_refusal(config.name):
            raise InputError(reason)
        self.policy, self.ranks, self.total_steps = policy, ranks, total_steps
        self._config, self._stage = config, backends.zero_stage
        trained = dict(policy.trainable())
        if not trained:
            raise InputError("no parameter of the model requires a gradient; nothing would be trained")
        self._names = tuple(trained)
        self._engine = _engine(policy, config, trained, backends)
        # Read only now: the engine gives all weights one precision, even float32 adapters on a bfloat16 model.
        self._low_precision = next(iter(trained.values())).dtype != torch.float32
        self._zero_state = ZeroState(self._engine.optimizer, self._stage, ranks.index, trained)

    def accumulate(self, parts: Sequence[P], loss_of: Callable[[P], tuple[Tensor, R]]) -> list[R]:
        """Add the gradients of this rank's parts' losses, in as many passes as on the other ranks."""
        remarks: list[R] = []
        for part, counts in self.ranks.rounds(parts):
            loss, remark = self._forward(part, loss_of)
            # the engine averages over ranks; the sum of all parts is wanted
            self._engine.backward(loss * (self.ranks.count if counts else 0.0), scale_wrt_gas=False)
            if counts:
                remarks.append(remark)
        return self.ranks.together(self.ranks.gather(remarks))

    def _forward(self, part: P, loss_of: Callable[[P], tuple[Tensor, R]]) -> tuple[Tensor, R]:
        remarks: list[R] = []

        def compute() -> Tensor:
            loss, remark = loss_of(part)
            remarks.append(remark)
            return loss

        return self._engine(compute), remarks[0]

    def step(self, step: int, *, scale: float = 1.0) -> Update:
        """Apply the gradients and clear them."""
        rate = scale * learning_rate(self._config, step, self.total_steps)
        for group in self._engine.optimizer.optimizer.param_groups:
            group["lr"] = rate
        self._engine.step()
        norm = float(self._engine.get_global_grad_norm())
        if not math.isfinite(norm) or norm < 0:  # DeepSpeed returns -1 for a norm that is not finite
            raise NotFiniteError(gradient_failure(math.nan if norm < 0 else norm, step, self._config))
        limit = self._config.clip_norm
        return Update(grad_norm=norm, learning_rate=rate, clipped=limit is not None and norm > limit)

    def state(self) -> dict[str, Tensor]:
        """Return this rank's part of the optimiser's state."""
        return self._zero_state.read(master=self._low_precision)

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore each rank's share of the whole state; the float32 weights are the policy's or the state's."""
        if state:
            with self.whole():
                self._zero_state.weights_to_master((name, p.detach()) for name, p in self.policy.trainable())
        self._zero_state.write(state)

    @contextmanager
    def whole(self) -> Iterator[None]:
        """Hold all weights on every rank; changes made to them inside are kept."""
        if self._stage < 3:
            yield
            return
        import deepspeed

        parameters = list(self.policy.module.parameters())
        with deepspeed.zero.GatheredParameters(parameters, modifier_rank=0), _without_hooks(self.policy.module):
            yield

    @property
    def gather(self) -> Gather:
        """What holds the weights of some modules whole on every rank."""
        return held if self._stage < 3 else zero_modules


@contextmanager
def _without_hooks(module: nn.Module) -> Iterator[None]:
    """Keep DeepSpeed from releasing weights after each forward pass; a copy of the module has no hooks."""
    parts = list(module.modules())
    kept = [(part._forward_hooks, part._forward_pre_hooks) for part in parts]
    try:
        for part in parts:
            part._forward_hooks, part._forward_pre_hooks = OrderedDict(), OrderedDict()
        yield
    finally:
        for part, hooks in zip(parts, kept, strict=True):
            part._forward_hooks, part._forward_pre_hooks = hooks


def _engine(policy: Policy, config: OptimizerConfig, trained: Mapping[str, nn.Parameter], backends: Backends) -> Any:
    if policy.device.type == "cpu":
        os.environ["DS_ACCELERATOR"] = "cpu"
    try:
        import deepspeed
        from deepspeed.utils import logger
    except ImportError as error:
        raise InputError(
            "trainer deepspeed needs the package deepspeed; install it, or set `backend: {trainer: torch}`"
        ) from error
    logger.setLevel(logging.WARNING)
    # A shared-memory all-reduce that it would compile at the first start: that takes minutes and needs a compiler.
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    if backends.zero_stage == 3 and (mixtures := _mixtures(policy.module)):
        # Which experts run differs from pass to pass and from rank to rank: all of a block's weights come at once.
        deepspeed.utils.set_z3_leaf_modules(policy.module, mixtures)
    with redirect_stdout(StringIO()):  # its stage 1 in bfloat16 prints memory usage
        engine, *_ = deepspeed.initialize(
            model=Compute(policy.module),
            optimizer=adamw(trained.values(), config),
            config=_settings(policy, config, backends),
            dist_init_required=False,
        )
    return engine


def _mixtures(module: nn.Module) -> list[type[nn.Module]]:
    """Return the classes of blocks that choose among experts."""
    found = {type(part): None for part in module.modules() if "experts" in dict(part.named_children())}
    return list(found)


def _settings(policy: Policy, config: OptimizerConfig, backends: Backends) -> dict[str, Any]:
    zero: dict[str, Any] = {"stage": backends.zero_stage}
    if backends.zero_stage == 3:
        zero |= _live_weights(sum(p.numel() for p in policy.module.parameters()))
    if backends.offload != "none":
        zero["offload_optimizer"] = {"device": "cpu"}
    if backends.offload == "all":
        zero["offload_param"] = {"device": "cpu"}
    bf16 = next(policy.module.parameters()).dtype == torch.bfloat16
    return {
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": 1,
        "managed_gradient_accumulation": False,
        "gradient_clipping": config.clip_norm or 0.0,
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        "zero_optimization": zero,
        "bf16": {"enabled": bf16},
        # 64 micro-batches summed in bfloat16 lose 1 % of their sum.
        **({"data_types": {"grad_accum_dtype": "fp32"}} if bf16 else {}),
    }


def _live_weights(size: int) -> dict[str, int]:
    """Return how many of `size` weights stage 3 holds whole at a time; DeepSpeed's own limits are for large models.

    With those a model of a billion weights would never be sharded while it computes.
    """
    return {
        "stage3_max_live_parameters": min(1_000_000_000, size // 4),
        "stage3_max_reuse_distance": min(1_000_000_000, size // 8),
        "stage3_prefetch_bucket_size": min(50_000_000, size // 16),
        "stage3_model_persistence_threshold": size // 100,  # norms and biases, which are not worth a message each
    }
