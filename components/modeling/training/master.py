"""Float32 copies of low-precision weights, which an optimiser updates in their place.

An update that is smaller than half of a weight's last bit is lost in bfloat16, where that is 1/512 of the weight: RL's
learning rates of 1e-6 would change nothing. In a float32 copy such updates add up (Micikevicius et al. 2018,
arXiv:1710.03740, section 3.1).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor, nn

MASTER = "master"
"""Name of the float32 weights among an optimiser's states."""


class MasterWeights:
    """The parameters that an optimiser updates: a model's own if they are float32, else float32 copies."""

    def __init__(self, parameters: Mapping[str, nn.Parameter]) -> None:
        self._own = {name: p for name, p in parameters.items() if p.dtype in (torch.bfloat16, torch.float16)}
        self._copies = {name: nn.Parameter(p.detach().float()) for name, p in self._own.items()}
        self.trained: dict[str, nn.Parameter] = {name: self._copies.get(name, p) for name, p in parameters.items()}

    @contextmanager
    def taking_gradients(self) -> Iterator[None]:
        """Accumulate gradients of backward passes inside in float32: each moves to its copy as soon as it is computed.

        64 gradients summed in bfloat16 lose 1 % of their sum.
        """
        hooks = [
            parameter.register_post_accumulate_grad_hook(partial(self._take_gradient, name))
            for name, parameter in self._own.items()
        ]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def take_gradients(self) -> None:
        """Add the model's gradients to the copies' and clear them."""
        for name, parameter in self._own.items():
            self._take_gradient(name, parameter)

    def _take_gradient(self, name: str, parameter: Tensor) -> None:
        gradient, parameter.grad = parameter.grad, None
        copy = self._copies[name]
        if gradient is None:
            return
        if copy.grad is None:
            copy.grad = gradient.float()
        else:
            copy.grad.add_(gradient)

    @torch.no_grad()
    def give_weights(self) -> None:
        """Round the copies to the model's weights."""
        for name, parameter in self._own.items():
            parameter.copy_(self._copies[name])

    def state(self) -> dict[str, Tensor]:
        """Return "master/<parameter name>" -> float32 weights, for parameters that have a copy."""
        return {f"{MASTER}/{name}": copy.detach() for name, copy in self._copies.items()}

    @torch.no_grad()
    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state` returned; copies that it lacks are set from the model's weights.

        Weights without a copy here may have had one when the state was saved; the model then holds them rounded.
        """
        for name, parameter in self.trained.items():
            parameter.copy_(state.get(f"{MASTER}/{name}", self._own.get(name, parameter)))
