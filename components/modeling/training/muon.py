"""Muon: momentum whose matrix updates are orthogonalised by Newton-Schulz iteration.

K. Jordan et al., "Muon: An optimizer for hidden layers in neural networks", 2024
(https://kellerjordan.github.io/posts/muon/); step sizes of J. Liu et al., "Muon is Scalable for LLM
Training", arXiv:2502.16982, section 2.2. It computes what torch.optim.Muon does; in addition, a parameter that
stacks several matrices (query, key and value, say) is orthogonalised one matrix at a time; matrices of one
shape go through the iteration as one batch; and the iteration runs in float32 where bfloat16 would be
emulated.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Quintic with the steepest slope at zero that still maps (0, 1] into about [0.7, 1.2] (Jordan's post)."""
NUM_ITERATIONS = 5
EPSILON = 1e-7

Scale = Literal["match_rms_adamw", "original"]


def orthogonalize(matrices: Tensor, *, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return matrices [B, R, C] with all singular values moved to about 1 and singular vectors kept.

    The iteration works in `dtype`; the result has the dtype of `matrices`. A zero matrix stays zero.
    """
    a, b, c = COEFFICIENTS
    tall = matrices.size(-2) > matrices.size(-1)
    work = (matrices.mT if tall else matrices).to(dtype, copy=True).contiguous()
    work /= work.norm(dim=(-2, -1), keepdim=True).clamp(min=EPSILON)
    for _ in range(NUM_ITERATIONS):
        gram = work @ work.mT
        polynomial = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)
        work = torch.baddbmm(work, polynomial, work, beta=a)
    return (work.mT if tall else work).to(matrices.dtype)


def step_scale(rows: int, columns: int, scale: Scale) -> float:
    """Return the factor on the learning rate for a matrix of this shape.

    "match_rms_adamw": 0.2 sqrt(max(rows, columns)), the RMS of AdamW's updates (arXiv:2502.16982, eq. 4);
    "original": sqrt(max(1, rows / columns)) (Jordan's code).
    """
    if scale == "original":
        return math.sqrt(max(1.0, rows / columns))
    return 0.2 * math.sqrt(max(rows, columns))


def iteration_dtype(device: torch.device) -> torch.dtype:
    """Return bfloat16, as in the original, where the hardware multiplies it natively, else float32."""
    if device.type == "cuda":
        return torch.bfloat16
    native = torch.cpu.get_capabilities()
    return torch.bfloat16 if native.get("avx512_bf16") or native.get("amx_bf16") else torch.float32


class Muon(torch.optim.Optimizer):
    """Muon over matrices only (two dimensions); everything else belongs to another optimiser.

    `row_blocks` gives, for a parameter that stacks several matrices, the number of rows of each.
    """

    def __init__(
        self,
        parameters: Sequence[torch.nn.Parameter],
        *,
        lr: float,
        momentum: float = 0.95,
        weight_decay: float = 0.0,
        scale: Scale = "match_rms_adamw",
        row_blocks: Mapping[torch.nn.Parameter, tuple[int, ...]] | None = None,
    ) -> None:
        super().__init__(parameters, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})
        self._scale: Scale = scale
        self._row_blocks = dict(row_blocks or {})
        for parameter in parameters:
            if parameter.ndim != 2:
                raise ValueError(f"Muon takes matrices only, not a parameter of shape {tuple(parameter.shape)}")
            if sum(self._blocks(parameter)) != parameter.size(0):
                raise ValueError(f"row blocks {self._blocks(parameter)} do not add up to {parameter.size(0)} rows")

    def _blocks(self, parameter: torch.nn.Parameter) -> tuple[int, ...]:
        return self._row_blocks.get(parameter, (parameter.size(0),))

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        """Update all parameters that have a gradient; `closure` is not supported."""
        if closure is not None:
            raise ValueError("Muon.step takes no closure")
        for group in self.param_groups:
            by_shape: dict[torch.Size, list[tuple[Tensor, Tensor]]] = defaultdict(list)
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                update = self._nesterov(parameter, group["momentum"])
                parameter.mul_(1 - group["lr"] * group["weight_decay"])
                blocks = self._blocks(parameter)
                for target, matrix in zip(parameter.split(blocks), update.split(blocks), strict=True):
                    by_shape[matrix.shape].append((target, matrix))
            for shape, pairs in by_shape.items():
                stacked = torch.stack([matrix for _, matrix in pairs])
                directions = orthogonalize(stacked, dtype=iteration_dtype(stacked.device))
                size = group["lr"] * step_scale(*shape, self._scale)
                for (target, _), direction in zip(pairs, directions, strict=True):
                    target.add_(direction, alpha=-size)

    def _nesterov(self, parameter: torch.nn.Parameter, momentum: float) -> Tensor:
        """Move the momentum buffer and return Nesterov's look-ahead, both as averages of gradients."""
        state = self.state[parameter]
        if "momentum" not in state:
            state["momentum"] = torch.zeros_like(parameter.grad)
        state["momentum"].lerp_(parameter.grad, 1 - momentum)
        return parameter.grad.lerp(state["momentum"], momentum)
