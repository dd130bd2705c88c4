"""Everything that a training loop needs to continue as if it had not stopped, as safetensors and JSON in one folder.

weights.safetensors, optimizer.safetensors, generators.safetensors, tensors-<part>.safetensors (the caller's own) and
state.json: nothing is pickled. A part that does not change is the same file in each checkpoint, and stored once.
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
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from components.contract.context import Finish
from components.contract.errors import CorruptArtifact
from components.modeling.models.policy import Policy
from components.modeling.training.trainer import Trainer

Generator = torch.Generator | random.Random | np.random.Generator
GLOBAL_TORCH, GLOBAL_CUDA = "global/torch", "global/cuda"
OWN = "tensors-"
"""What the names of files with the caller's own tensors begin with."""


@dataclass(frozen=True)
class TrainingState:
    """A loop's position and the caller's own state."""

    step: int
    """Optimiser steps done."""
    extra: dict[str, Any] = field(default_factory=dict)
    """The caller's own JSON state (data position, running sums ...)."""
    tensors: dict[str, Tensor] = field(default_factory=dict)
    """The caller's own tensors (further models, their optimisers ...) as "<part>|<name>" -> tensor."""


def save_training_state(
    folder: Path,
    state: TrainingState,
    *,
    policy: Policy,
    trainer: Trainer | None = None,
    generators: Mapping[str, Generator] | None = None,
) -> Finish:
    """Copy trainable weights, optimiser state and all random generators, the global ones included, to host memory.

    Returns what writes the copies to `folder`, on any thread. With a trainer all ranks must call it; only the first one
    writes. Generators of Python, NumPy and torch are equal on all ranks.
    """
    writes = trainer is None or trainer.ranks.first
    with trainer.whole() if trainer else nullcontext():
        files = {"weights": _copied(policy.state())} if writes else {}
    optimizer = trainer.state() if trainer else {}
    if not writes:
        return lambda: None
    if trainer is not None:
        files["optimizer"] = _copied(optimizer)
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
    files["generators"] = tensors
    for name, tensor in _copied(state.tensors).items():
        files.setdefault(f"{OWN}{name.partition('|')[0]}", {})[name] = tensor
    content = {"step": state.step, "extra": state.extra, "generators": others}
    text = json.dumps(content, sort_keys=True, default=_as_list)

    def finish() -> None:
        (folder / "state.json").write_text(text)
        for name, tensors in files.items():
            try:
                save_file(tensors, folder / f"{name}.safetensors")
            except SafetensorError as error:  # what it says of a full disk
                raise OSError(f"{name}.safetensors: {error}") from error

    return finish


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
    own: dict[str, Tensor] = {}
    for path in sorted(folder.glob(f"{OWN}*.safetensors")):
        own |= load_file(path)
    return TrainingState(content["step"], content["extra"], own)


def _copied(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return copies in host memory, which the next update does not change."""
    return {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()}


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
