"""Everything that a training loop needs to continue bit for bit, as safetensors and JSON in one folder.

weights.safetensors, optimizer.safetensors, generators.safetensors, tensors.safetensors (the caller's own) and
state.json: nothing is pickled.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from components.contract.errors import CorruptArtifact
from components.modeling.models.policy import Policy
from components.modeling.training.trainer import Trainer

Generator = torch.Generator | random.Random | np.random.Generator
GLOBAL_TORCH, GLOBAL_CUDA = "global/torch", "global/cuda"


@dataclass(frozen=True)
class TrainingState:
    """A loop's position and the caller's own state."""

    step: int
    """Optimiser steps done."""
    extra: dict[str, Any] = field(default_factory=dict)
    """The caller's own JSON state (data position, running sums ...)."""
    tensors: dict[str, Tensor] = field(default_factory=dict)
    """The caller's own tensors (further models, their optimisers ...)."""


def save_training_state(
    folder: Path,
    state: TrainingState,
    *,
    policy: Policy,
    trainer: Trainer | None = None,
    generators: Mapping[str, Generator] | None = None,
) -> None:
    """Write trainable weights, optimiser state and all random generators, the global ones included.

    With a trainer all ranks must call it; only the first one writes. Generators of Python, NumPy and torch are equal
    on all ranks.
    """
    writes = trainer is None or trainer.ranks.first
    with trainer.whole() if trainer else nullcontext():
        weights = policy.state() if writes else {}
    optimizer = trainer.state() if trainer else {}
    if not writes:
        return
    save_file(_plain(weights), folder / "weights.safetensors")
    if trainer is not None:
        save_file(_plain(optimizer), folder / "optimizer.safetensors")
    tensors = {GLOBAL_TORCH: torch.get_rng_state()}
    if torch.cuda.is_available():
        tensors[GLOBAL_CUDA] = torch.cuda.get_rng_state()
    others: dict[str, Any] = {"global/python": random.getstate(), "global/numpy": _numpy_global()}
    for name, generator in (generators or {}).items():
        if isinstance(generator, torch.Generator):
            tensors[name] = generator.get_state()
        elif isinstance(generator, random.Random):
            others[name] = generator.getstate()
        else:
            others[name] = generator.bit_generator.state
    save_file(tensors, folder / "generators.safetensors")
    if state.tensors:
        save_file(_plain(state.tensors), folder / "tensors.safetensors")
    content = {"step": state.step, "extra": state.extra, "generators": others}
    (folder / "state.json").write_text(json.dumps(content, sort_keys=True, default=_as_list))


def load_training_state(
    folder: Path,
    *,
    policy: Policy,
    trainer: Trainer | None = None,
    generators: Mapping[str, Generator] | None = None,
) -> TrainingState:
    """Restore in place what `save_training_state` wrote and return the loop's position.

    Raises CorruptArtifact when the folder lacks a generator that the caller names.
    """
    content = json.loads((folder / "state.json").read_text())
    with trainer.whole() if trainer else nullcontext():
        policy.load_state(load_file(folder / "weights.safetensors"))
    if trainer is not None:
        trainer.load_state(load_file(folder / "optimizer.safetensors"))
    tensors, others = load_file(folder / "generators.safetensors"), content["generators"]
    for name, generator in (generators or {}).items():
        if name not in tensors and name not in others:
            raise CorruptArtifact(f"{folder}: the checkpoint holds no state of generator {name!r}")
        if isinstance(generator, torch.Generator):
            generator.set_state(tensors[name])
        elif isinstance(generator, random.Random):
            generator.setstate(_python_state(others[name]))
        else:
            generator.bit_generator.state = others[name]
    torch.set_rng_state(tensors[GLOBAL_TORCH])
    if GLOBAL_CUDA in tensors and torch.cuda.is_available():
        torch.cuda.set_rng_state(tensors[GLOBAL_CUDA])
    random.setstate(_python_state(others["global/python"]))
    name, keys, *rest = others["global/numpy"]
    np.random.set_state((name, np.array(keys, dtype=np.uint32), *rest))
    own = folder / "tensors.safetensors"
    return TrainingState(content["step"], content["extra"], load_file(own) if own.is_file() else {})


def _plain(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}


def _numpy_global() -> list[Any]:
    return [part.tolist() if isinstance(part, np.ndarray) else part for part in np.random.get_state()]


def _python_state(state: list[Any]) -> tuple[Any, ...]:
    version, numbers, gauss = state
    return version, tuple(numbers), gauss


def _as_list(value: Any) -> Any:
    """Let JSON hold the arrays of NumPy's MT19937 state; its setter takes lists back."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is no JSON value")
