"""From OptimizerConfig to one object that clips, schedules and steps, and whose state is plain tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from components.contract.errors import InputError, NotFiniteError
from components.modeling.training.master import MASTER, MasterWeights
from components.modeling.training.muon import Muon
from components.modeling.training.schedule import learning_rate
from components.modeling.training.training_config import OptimizerConfig, ScheduleConfig

__all__ = [
    "Optimizer",
    "OptimizerConfig",
    "ScheduleConfig",
    "Update",
    "build_optimizer",
    "learning_rate",
]

TABLES = {"head", "lm_head", "score", "wte", "wpe"}
"""Last parts of parameter names, beside those that begin with "embed", of lookup tables and output heads:
their rows are separate vectors, which Muon is not meant for (Jordan's post)."""


@dataclass(frozen=True)
class Update:
    """What one optimiser step did."""

    grad_norm: float
    """Norm of the whole gradient before clipping."""
    learning_rate: float
    clipped: bool
    """Whether the gradient was scaled down."""


class Optimizer:
    """AdamW, alone or beside Muon, under one learning-rate schedule and one clip of the whole gradient.

    Weights of lower precision than float32 have float32 copies, which the optimiser updates.
    """

    def __init__(
        self,
        parameters: Mapping[str, nn.Parameter],
        config: OptimizerConfig,
        total_steps: int,
        row_blocks: Mapping[str, tuple[int, ...]],
    ) -> None:
        self.config, self.total_steps = config, total_steps
        self._masters = MasterWeights(parameters)
        self._parameters = self._masters.trained
        self._inner = self._inner_optimizers(row_blocks)

    def _inner_optimizers(self, row_blocks: Mapping[str, tuple[int, ...]]) -> list[torch.optim.Optimizer]:
        by_muon = {name: p for name, p in self._parameters.items() if is_for_muon(name, p, self.config)}
        rest = [p for name, p in self._parameters.items() if name not in by_muon]
        muon = [self.muon(by_muon, row_blocks)] if by_muon else []
        return [*muon, adamw(rest, self.config)] if rest else [*muon]

    def muon(self, parameters: Mapping[str, nn.Parameter], row_blocks: Mapping[str, tuple[int, ...]]) -> Muon:
        """Return what updates these matrices."""
        return Muon(
            list(parameters.values()),
            row_blocks={p: row_blocks[name] for name, p in parameters.items() if name in row_blocks},
            **muon_settings(self.config),
        )

    @property
    def trained(self) -> Mapping[str, nn.Parameter]:
        """Return the parameters that are updated and hold the gradients, by name: weights or their copies."""
        return self._masters.trained

    def accumulating(self) -> AbstractContextManager[None]:
        """Return a context in which gradients accumulate in float32, whatever the weights' precision."""
        return self._masters.taking_gradients()

    def step(self, step: int, *, scale: float = 1.0) -> Update:
        """Apply the accumulated gradients as update number `step`, counted from 0, and clear them.

        `scale` multiplies the scheduled learning rate of this update.

        Raises NotFiniteError when the gradient is not finite; the weights are then untouched.
        """
        self._masters.take_gradients()
        gradients = [p.grad for p in self._parameters.values() if p.grad is not None]
        norm_tensor = self.total_norm(gradients)
        norm = float(norm_tensor)
        if not torch.isfinite(norm_tensor):
            raise NotFiniteError(gradient_failure(norm, step, self.config))
        limit = self.config.clip_norm
        clipped = limit is not None and norm > limit
        if clipped:
            for gradient in gradients:
                gradient.mul_(limit / norm)
        rate = scale * learning_rate(self.config, step, self.total_steps)
        for optimizer in self._inner:
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.step()
        self._masters.give_weights()
        self.zero_grad()
        return Update(grad_norm=norm, learning_rate=rate, clipped=clipped)

    def total_norm(self, gradients: Sequence[Tensor]) -> Tensor:
        """Return the norm of all gradients together."""
        return torch.nn.utils.get_total_norm(gradients)

    def zero_grad(self) -> None:
        """Clear the accumulated gradients."""
        self._masters.take_gradients()
        for parameter in self._parameters.values():
            parameter.grad = None

    def state(self) -> dict[str, Tensor]:
        """Return the whole optimiser state as "<kind>/<parameter name>" -> tensor."""
        states = {
            f"{key}/{name}": value
            for name, parameter in self._parameters.items()
            for optimizer in self._inner
            for key, value in optimizer.state.get(parameter, {}).items()
        }
        return states | self._masters.state()

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state` returned, bit for bit; {} resets all averages. Load the model's weights first.

        Raises InputError when the state belongs to other parameters.
        """
        owners = {p: inner for inner in self._inner for group in inner.param_groups for p in group["params"]}
        for inner in self._inner:
            inner.state.clear()
        for key, value in state.items():
            kind, _, name = key.partition("/")
            parameter = self._parameters.get(name)
            if parameter is None:
                raise InputError(f"the optimiser state is of another model: no parameter {name!r} is trained")
            if kind != MASTER:
                owners[parameter].state[parameter][kind] = value.clone().to(parameter.device)
        if state:
            self._masters.load_state(state)


def gradient_failure(norm: float, step: int, config: OptimizerConfig) -> str:
    """Return the error message for a gradient that is not finite."""
    return (
        f"the gradient became {norm} at step {step}; lower optimizer.peak_learning_rate "
        f"({config.peak_learning_rate:g}) or add optimizer.warmup_steps"
    )


def build_optimizer(
    module: nn.Module,
    config: OptimizerConfig,
    *,
    total_steps: int,
    row_blocks: Mapping[str, tuple[int, ...]] | None = None,
) -> Optimizer:
    """Return the optimiser of all parameters of `module` that require a gradient.

    `row_blocks` (Policy.row_blocks) gives the matrices that are stacked in one parameter. Raises InputError
    when no parameter is trainable.
    """
    parameters = {name: p for name, p in module.named_parameters() if p.requires_grad}
    if not parameters:
        raise InputError("no parameter of the model requires a gradient; nothing would be trained")
    return Optimizer(parameters, config, total_steps, row_blocks or {})


def muon_settings(config: OptimizerConfig) -> dict[str, Any]:
    """Return the arguments of Muon beside parameters."""
    return {
        "lr": config.peak_learning_rate,
        "momentum": config.momentum,
        "weight_decay": config.weight_decay,
        "scale": config.muon_scale,
    }


def adamw(parameters: Iterable[nn.Parameter], config: OptimizerConfig) -> torch.optim.AdamW:
    """Return AdamW over the parameters; vectors, such as norms and biases, are never decayed."""
    everything = list(parameters)
    decayed = [p for p in everything if p.ndim >= 2]
    others = [p for p in everything if p.ndim < 2]
    groups = [
        {"params": decayed, "weight_decay": config.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        [group for group in groups if group["params"]],
        lr=config.peak_learning_rate,
        betas=config.betas,
        eps=config.eps,
        fused=True,
    )


def is_for_muon(name: str, parameter: Tensor, config: OptimizerConfig) -> bool:
    """Return whether Muon updates this parameter: a matrix that is neither a lookup table nor an output head."""
    is_table = any(part in TABLES or part.startswith("embed") for part in name.split("."))
    return config.name == "muon" and parameter.ndim == 2 and not is_table
