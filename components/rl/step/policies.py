"""The policies that a step may compare: the trained one, the starting one, and moving copies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor

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

    @property
    def has_copies(self) -> bool:
        """Return whether any copy follows the trained policy."""
        return bool(self._copies)

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
            f"{copy}:{name}": self._whole(policy, name) for copy, policy in self._copies.items() for name in trained
        }

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state` returned."""
        with torch.no_grad():
            for key, value in state.items():
                copy, _, name = key.partition(":")
                self._fill(self._copy(copy), name, value)

    def _copy(self, name: str) -> Policy:
        if name not in self._copies:
            self._copies[name] = self._new_copy()
        return self._copies[name]

    def _whole(self, policy: Policy, name: str) -> Tensor:
        """Return a copy of a weight of a copy; of a sharded one on the first rank alone, which writes it."""
        if not self._sharded:
            return policy.module.get_parameter(name).detach().clone()
        from components.modeling.training.fsdp_copies import whole_on_first

        return whole_on_first(policy, name)

    def _fill(self, policy: Policy, name: str, whole: Tensor) -> None:
        if not self._sharded:
            policy.module.get_parameter(name).copy_(whole)
            return
        from components.modeling.training.fsdp_copies import fill

        fill(policy, name, whole)

    def _new_copy(self) -> Policy:
        if not self.trained.is_sharded:
            return self.trained.copy()
        from components.modeling.training.fsdp_copies import sharded_copy

        return sharded_copy(self.trained)

    def _pairs(self, copy: Policy) -> Iterable[tuple[Tensor, Tensor]]:
        """Return pairs of each trainable weight in a copy and its counterpart in the trained policy.

        Where layers are sharded: of this rank's parts.
        """
        if copy.is_sharded:
            from components.modeling.training.fsdp_copies import pairs

            return pairs(copy, self.trained)
        mine = dict(copy.module.named_parameters())
        return [(mine[name], weight) for name, weight in self.trained.trainable()]
