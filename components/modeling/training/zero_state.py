"""The state of a DeepSpeed optimiser as pieces of plain tensors, and back, whatever the number of ranks.

DeepSpeed keeps each rank's share of all parameters of a group in one flat float32 tensor, and the optimiser's averages
beside it. A fragment says which elements of a parameter lie where in this rank's flat tensor.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, distributed, nn

from components.contract.errors import InputError
from components.modeling.training.master import MASTER
from components.modeling.training.shards import AT

AVERAGES = ("exp_avg", "exp_avg_sq")
"""AdamW's moving averages, as torch and the checkpoints call them."""


@dataclass(frozen=True)
class Fragment:
    """This rank's elements of one parameter."""

    flat: Tensor
    """[F] the group's flat tensor on this rank."""
    flat_start: int
    start: int
    """First element of the flattened parameter."""
    count: int

    def of(self, flat: Tensor) -> Tensor:
        """Return [count] this fragment of a tensor with the layout of `self.flat`."""
        return flat.narrow(0, self.flat_start, self.count)


def fragments(zero: Any, stage: int, rank: int, parameters: Mapping[str, nn.Parameter]) -> dict[str, Fragment]:
    """Return this rank's fragment of every parameter that it holds a part of; `zero` is the engine's optimiser."""
    found: dict[str, Fragment] = {}
    for name, parameter in parameters.items():
        if stage == 3:
            group, flat_start, share = zero.grad_position[zero.get_param_id(parameter)]
            start, flat = rank * share, zero.fp32_partitioned_groups_flat[group]
            count = max(0, min(share, parameter.ds_numel - start))  # the last share may be padded
        else:
            mapping = parameter._hp_mapping
            if mapping is None:
                continue
            flat = _flats(zero)[mapping.param_group_index]
            flat_start, start = mapping.hp_fragment_address.start, mapping.lp_fragment_address.start
            count = mapping.lp_fragment_address.numel
        if count:
            found[name] = Fragment(flat, flat_start, start, count)
    return found


def _flats(zero: Any) -> list[Tensor]:
    """Return this rank's flat tensors of stage 1 or 2; bfloat16 at stage 1 has a separate optimiser."""
    from deepspeed.runtime.bf16_optimizer import BF16_Optimizer

    own = isinstance(zero, BF16_Optimizer)
    return zero.fp32_groups_flat_partition if own else zero.single_partition_of_fp32_groups


class ZeroState:
    """Reads and writes averages, step counts and master weights of the parameters that DeepSpeed trains."""

    def __init__(self, zero: Any, stage: int, rank: int, parameters: Mapping[str, nn.Parameter]) -> None:
        self._optimizer: torch.optim.Optimizer = zero.optimizer
        self._parameters = dict(parameters)
        self._fragments = fragments(zero, stage, rank, parameters)
        self._first = rank == 0

    def read(self, *, master: bool) -> dict[str, Tensor]:
        """Return this rank's pieces as "<kind>/<parameter>@<first element>" -> [n], and on the first rank the counts.

        All ranks must call it. Before the first update there are no averages.
        """
        states = self._optimizer.state
        steps = [states[fragment.flat]["step"] for fragment in self._fragments.values() if states.get(fragment.flat)]
        started = torch.tensor(float(steps[0]) if steps else 0.0)
        distributed.all_reduce(started, op=distributed.ReduceOp.MAX)
        found: dict[str, Tensor] = {}
        for name, fragment in self._fragments.items():
            place = f"{name}{AT}{fragment.start}"
            if master:
                found[f"{MASTER}/{place}"] = fragment.of(fragment.flat)
            if float(started):
                found |= {f"{kind}/{place}": fragment.of(states[fragment.flat][kind]) for kind in AVERAGES}
        if self._first and float(started):
            found |= {f"step/{name}": started.clone() for name in self._parameters}
        return found

    def write(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `read` returned on all ranks, joined; without averages, the next update counts as the first."""
        unknown = {key.partition("/")[2] for key in state} - set(self._parameters)
        if unknown:
            name = min(unknown)
            raise InputError(f"the optimiser state is of another model: no parameter {name!r} is trained")
        if extra := {key.partition("/")[0] for key in state} - {*AVERAGES, MASTER, "step"}:
            raise InputError(f"the optimiser state is not AdamW's: it holds {min(extra)!r}")
        self._optimizer.state.clear()
        for name, fragment in self._fragments.items():
            if f"{MASTER}/{name}" in state:
                _copy(fragment.of(fragment.flat), state[f"{MASTER}/{name}"], fragment)
            if f"step/{name}" in state:
                own = self._own(fragment.flat, state[f"step/{name}"])
                for kind in AVERAGES:
                    _copy(fragment.of(own[kind]), state[f"{kind}/{name}"], fragment)

    def weights_to_master(self, weights: Iterable[tuple[str, Tensor]]) -> None:
        """Set the float32 weights, which the optimiser updates, from whole tensors."""
        for name, weight in weights:
            if fragment := self._fragments.get(name):
                _copy(fragment.of(fragment.flat), weight, fragment)

    def _own(self, flat: Tensor, step: Tensor) -> dict[str, Tensor]:
        """Return the optimiser's state of a flat tensor, created if there is none yet."""
        own = self._optimizer.state[flat]
        if not own:
            # On the device of the weights, as a fused update requires.
            own["step"] = torch.tensor(float(step), device=flat.device)
            own.update({kind: torch.zeros_like(flat) for kind in AVERAGES})
        return own


def _copy(target: Tensor, whole: Tensor, fragment: Fragment) -> None:
    with torch.no_grad():
        target.copy_(whole.flatten().narrow(0, fragment.start, fragment.count))
