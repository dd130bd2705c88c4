"""The policies that a step may compare: the trained one, the starting one, and moving copies."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor, nn

from components.modeling.loading.load import load_policy
from components.modeling.models.policy import Policy

ANCHOR = "anchor"


class Policies:
    """The trained policy, and frozen ones created when an operator first requests them."""

    def __init__(self, trained: Policy, start: Path, *, dtype: str, sharded: bool = False) -> None:
        """`start` is the model folder of the frozen starting policy; `sharded` cuts up its layers."""
        self.trained, self._sharded = trained, sharded
        self._start, self._dtype = start, dtype
        self._copies: dict[str, Policy] = {}

    @cached_property
    def start(self) -> Policy:
        """Return the frozen starting policy. It is loaded from an input, so a resumed run has the same one."""
        device = str(self.trained.device)
        policy = load_policy(self._start, device=device, dtype=self._dtype, sharded=self._sharded)
        policy.module.requires_grad_(False)
        if self._sharded:
            from components.modeling.training.fsdp_shards import shard_frozen

            shard_frozen(policy)
        return policy

    def average(self, decay: float) -> Policy:
        """Return the moving average of the trained policy's weights, equal to them at the first call.

        After every step: average <- decay * average + (1 - decay) * trained.
        """
        return self._copy(f"average/{decay!r}")

    def snapshot(self, every: int) -> Policy:
        """Return the trained policy as of the last step whose number is a multiple of `every`.

        Steps count from 1; before the first such step it is the trained policy at the first call.
        """
        return self._copy(f"snapshot/{every}")

    @property
    def anchor(self) -> Policy:
        """Return the starting policy, or the trained policy at the last `restart_reference`."""
        return self._copies.get(ANCHOR, None) or self.start

    def end_step(self, number: int) -> None:
        """Update the copies; `number` counts the completed steps."""
        with torch.no_grad():
            for name, copy in self._copies.items():
                kind, _, setting = name.partition("/")
                for mine, theirs in self._pairs(copy):
                    if kind == "average":
                        mine.lerp_(theirs, 1.0 - float(setting))
                    elif kind == "snapshot" and number % int(setting) == 0:
                        mine.copy_(theirs)

    def restart_reference(self) -> None:
        """Set the anchor and every moving copy to the current trained policy."""
        self._copy(ANCHOR)
        with torch.no_grad():
            for copy in self._copies.values():
                for mine, theirs in self._pairs(copy):
                    mine.copy_(theirs)

    def state(self) -> dict[str, Tensor]:
        """Return the weights of all copies for a checkpoint: "<copy>:<parameter>" -> tensor."""
        trained = [name for name, _ in self.trained.trainable()]
        return {
            f"{copy}:{name}": weights[name].detach().clone()
            for copy, weights in ((key, dict(policy.module.named_parameters())) for key, policy in self._copies.items())
            for name in trained
        }

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state` returned."""
        with torch.no_grad():
            for key, value in state.items():
                copy, _, name = key.partition(":")
                dict(self._copy(copy).module.named_parameters())[name].copy_(value)

    def _copy(self, name: str) -> Policy:
        if name not in self._copies:
            self._copies[name] = self.trained.copy()
        return self._copies[name]

    def _pairs(self, copy: Policy) -> list[tuple[nn.Parameter, nn.Parameter]]:
        """Return pairs of each trainable weight in a copy and its counterpart in the trained policy."""
        mine = dict(copy.module.named_parameters())
        return [(mine[name], weight) for name, weight in self.trained.trainable()]
