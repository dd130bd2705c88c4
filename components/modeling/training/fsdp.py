"""FSDP2: weights, gradients and optimiser states are sharded over the ranks, layer by layer.

Zhao et al. 2023 (arXiv:2304.11277), as torch's `fully_shard`, which shards each parameter by its first dimension.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from math import prod
from pathlib import Path

import torch
from torch import Tensor, distributed, nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor

from components.contract.backends import Backends
from components.contract.errors import InputError
from components.modeling.context.passes import context_passes
from components.modeling.models.policy import Gather, Policy
from components.modeling.native.native_policy import NativePolicy
from components.modeling.ranks import Ranks
from components.modeling.training.fsdp_gather import gathered
from components.modeling.training.fsdp_muon import ShardedMuon, Whole
from components.modeling.training.fsdp_parts import Parts
from components.modeling.training.fsdp_shards import shard_trained
from components.modeling.training.layer_gather import fsdp_modules
from components.modeling.training.master import MASTER
from components.modeling.training.muon import Muon
from components.modeling.training.optimizer import Optimizer, Update, is_for_muon, muon_settings
from components.modeling.training.trainer import P, R, Trainer
from components.modeling.training.training_config import OptimizerConfig

AVERAGES = ("exp_avg", "exp_avg_sq", "momentum")


class _ShardedOptimizer(Optimizer):
    """AdamW, and Muon if asked for, over this rank's shards; the norm is that of the gradient of all ranks."""

    def __init__(
        self,
        wholes: Mapping[str, DTensor],
        shards: Mapping[str, nn.Parameter],
        config: OptimizerConfig,
        total_steps: int,
        row_blocks: Mapping[str, tuple[int, ...]],
        parts: Parts,
    ) -> None:
        self._parts = parts
        self._shapes = {name: tuple(whole.shape) for name, whole in wholes.items()}
        # A rank has no elements of a parameter with fewer rows than ranks, but takes part in Muon's exchanges.
        kept = {name: p for name, p in shards.items() if p.numel() or is_for_muon(name, p, config)}
        super().__init__(kept, config, total_steps, row_blocks)

    def muon(self, parameters: Mapping[str, nn.Parameter], row_blocks: Mapping[str, tuple[int, ...]]) -> Muon:
        """Return what updates these shards of matrices."""
        wholes = {
            parameter: Whole(*self._shapes[name], row_blocks.get(name, self._shapes[name][:1]))
            for name, parameter in parameters.items()
        }
        return ShardedMuon(wholes, **muon_settings(self.config))

    def total_norm(self, gradients: Sequence[Tensor]) -> Tensor:
        """Return the norm over the shards of all ranks, each element counted once."""
        if self._parts.parted:
            found = {name: p.grad for name, p in self._parameters.items() if p.grad is not None}
            gradients = self._parts.counted_once(found)
        squares = super().total_norm(gradients).square()
        distributed.all_reduce(squares)
        return squares.sqrt()


class FsdpTrainer(Trainer):
    """AdamW and Muon under fully_shard; between passes no rank holds more than its shard."""

    def __init__(
        self, policy: Policy, config: OptimizerConfig, *, total_steps: int, backends: Backends, ranks: Ranks
    ) -> None:
        if not policy.trainable():
            raise InputError("no parameter of the model requires a gradient; nothing would be trained")
        self.policy, self.ranks = policy, ranks
        self._root: FSDPModule = shard_trained(policy)
        self._trained: dict[str, DTensor] = dict(policy.trainable())  # type: ignore[arg-type]
        self._shards = {name: nn.Parameter(p.to_local().detach()) for name, p in self._trained.items()}
        self._parts = Parts(policy, self._trained)
        if self._parts.parted and (refusal := backends.optimizer_refusal(config.name)):
            raise InputError(refusal)
        given = (config, total_steps, policy.row_blocks(), self._parts)
        self._optimizer = _ShardedOptimizer(self._trained, self._shards, *given)
        self._low_precision = policy.compute_dtype is not None
        size = sum(p.numel() * (policy.compute_dtype or p.dtype).itemsize for p in policy.module.parameters())
        on_gpu = policy.device.type == "cuda"
        memory = torch.cuda.get_device_properties(policy.device).total_memory if on_gpu else None
        self._by_layers = backends.gathers_layers(size, memory)

    @property
    def total_steps(self) -> int:  # type: ignore[override]
        """Return the updates of the learning-rate schedule."""
        return self._optimizer.total_steps

    @total_steps.setter
    def total_steps(self, value: int) -> None:
        self._optimizer.total_steps = value

    @property
    def num_parameters(self) -> int:
        """Return how many weights the policy has, trained or not; none that are kept in 4 bits, as other trainers."""
        own = ((name, p) for name, p in self.policy.module.named_parameters() if p.is_floating_point())
        return sum(prod(self.policy.whole_shape(name, parameter.shape)) for name, parameter in own)

    def accumulate(self, parts: Sequence[P], loss_of: Callable[[P], tuple[Tensor, R]]) -> list[R]:
        """Add the gradients of this rank's parts' losses, in as many passes as on the other ranks."""
        remarks: list[R] = []
        for part, counts in self.ranks.rounds(parts):
            found: list[R] = []

            def compute(part: P = part, found: list[R] = found) -> Tensor:
                loss, remark = loss_of(part)
                found.append(remark)
                return loss

            with context_passes():
                loss: Tensor = self._root(compute)  # type: ignore[operator]
            (loss if counts else 0.0 * loss).backward()
            if counts:
                remarks.append(found[0])
        return self.ranks.together(self.ranks.gather(remarks))

    def step(self, step: int, *, scale: float = 1.0) -> Update:
        """Apply the gradients and clear them."""
        for name, parameter in self._trained.items():
            gradient, parameter.grad = parameter.grad, None
            self._shards[name].grad = None if gradient is None else gradient.to_local()  # type: ignore[attr-defined]
        self._parts.sum_gradients(self._shards)
        return self._optimizer.step(step, scale=scale)

    def evaluate(self, compute: Callable[[], R]) -> R:
        """Return what `compute` returns; layer by layer, so no rank holds all weights."""
        with context_passes():
            return self._by_layer(compute)

    def _by_layer(self, compute: Callable[[], R]) -> R:
        found: list[R] = []
        with torch.no_grad():
            self._root(lambda: found.append(compute()))  # type: ignore[operator]
        self._root.reshard()  # without a backward pass to come, nothing else would let go of the root's weights
        return found[0]

    def roll_out(self, compute: Callable[[], R]) -> R:
        """Return what `compute` returns: with a whole copy of the weights on each rank, or layer by layer."""
        return self._by_layer(compute) if self._by_layers else super().roll_out(compute)

    def state(self) -> dict[str, Tensor]:
        """Return this rank's pieces of the optimiser's state, and the counts of updates of what it has pieces of."""
        own, found = self._optimizer.state(), {}
        for name, shard in self._shards.items():
            kinds = {MASTER: shard.detach()} if self._low_precision else {}
            kinds |= {kind: own[f"{kind}/{name}"] for kind in AVERAGES if f"{kind}/{name}" in own}
            for kind, part in kinds.items():
                found |= {f"{kind}/{place}": piece for place, piece in self._parts.pieces(name, part).items()}
            if (count := own.get(f"step/{name}")) is not None:
                found[f"step/{name}"] = count
        return found

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore this rank's shards of the whole state; the float32 weights are the policy's or the state's."""
        if extra := {key.partition("/")[0] for key in state} - {*AVERAGES, MASTER, "step"}:
            raise InputError(f"the optimiser state is neither AdamW's nor Muon's: it holds {min(extra)!r}")
        if unknown := {key.partition("/")[2] for key in state} - set(self._trained):
            raise InputError(f"the optimiser state is of another model: no parameter {min(unknown)!r} is trained")
        own: dict[str, Tensor] = {}
        for key, value in state.items():
            kind, _, name = key.partition("/")
            if not self._shards[name].numel():
                continue
            shard = value if kind == "step" else self._parts.own(name, value)
            if kind != MASTER:
                own[key] = shard
            else:
                with torch.no_grad():
                    self._shards[name].copy_(shard)
        self._optimizer.load_state(own)

    @property
    def elements(self) -> Callable[[str], range] | None:
        """Which elements of a trained parameter, flattened, are this rank's shard."""
        return None if self._parts.parted else self._parts.elements

    def weights(self) -> dict[str, Tensor]:
        """Return this rank's pieces of the trained weights on the CPU, in the precision of passes."""
        dtype = self.policy.compute_dtype
        own: dict[str, Tensor] = {}
        for name, shard in self._shards.items():
            pieces = self._parts.pieces(name, shard.detach())
            own |= {place: piece.to("cpu", dtype, copy=True) for place, piece in pieces.items()}
        return own

    def load_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Restore this rank's shards of all ranks' pieces, joined."""
        if set(weights) != set(self._trained):
            raise InputError("this checkpoint belongs to another model: its weights have other names")
        with torch.no_grad():
            for name, value in weights.items():
                self._shards[name].copy_(self._parts.own(name, value))

    @contextmanager
    def whole(self) -> Iterator[None]:
        """Hold a copy of all weights on every rank, in the precision of passes; changes to it are lost."""
        with gathered(self.policy, keep=True, device=self.policy.device):
            yield

    @property
    def gather(self) -> Gather:
        """What holds the weights of some modules whole on every rank, in the precision of passes."""
        return partial(fsdp_modules, self.policy)

    def save(self, folder: Path) -> None:
        """Write the policy as a Hugging Face folder: each tensor is gathered alone; the first rank's host keeps all."""
        if isinstance(self.policy, NativePolicy) and self._parts.parted:
            self._save_parted(self.policy, folder)
            return
        with gathered(self.policy, keep=self.ranks.first, device=torch.device("cpu")):
            if self.ranks.first:
                self.policy.save(folder)

    def _save_parted(self, policy: NativePolicy, folder: Path) -> None:
        """Write a policy of which each rank has a part: its whole weights come one after the other."""
        weights: dict[str, Tensor] = {}
        for name, weight in policy.named_weights(self.gather):
            if self.ranks.first:
                weights[name] = weight.to("cpu", copy=True).contiguous()
        if self.ranks.first:
            folder.mkdir(parents=True, exist_ok=True)
            policy.export_these(folder, weights)
            policy.save_tokenizer(folder)
