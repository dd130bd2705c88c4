"""Everything that a training loop needs to continue as if it had not stopped, as safetensors and JSON in one folder.

weights-<rank>.safetensors and optimizer-<rank>.safetensors of each rank, the same for each further trainer
(critic-weights-<rank>.safetensors ...), generators.safetensors, state.json and tensors-<part>.safetensors (the caller's
own): nothing is pickled. A part that does not change is the same file in each checkpoint, and stored once.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
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
from components.modeling.ranks import Ranks
from components.modeling.training.own_parts import OwnParts
from components.modeling.training.shards import joined, part_name
from components.modeling.training.trainer import Trainer

Generator = torch.Generator | random.Random | np.random.Generator
GLOBAL_TORCH, GLOBAL_CUDA = "global/torch", "global/cuda"
WEIGHTS, OPTIMIZER, OWN = "weights-", "optimizer-", "tensors-"
"""What the names of files begin with: then comes the rank, or a part of the caller's own tensors."""
GENERATORS = "generators.safetensors"
CUT, ROWS = "cut", "rows"
"""In state.json: that each rank's part has its rows of all tensors, as fully_shard cuts them."""
Part = Callable[[str], Path]
"""From the name of a file to where it is."""


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
    others: Mapping[str, Trainer] | None = None,
) -> Finish:
    """Copy trainable weights, optimiser state and all random generators, the global ones included, to host memory.

    Returns what writes the copies to `folder`, on any thread. With a trainer all ranks must call it, and each writes
    its part of weights and optimiser, also of the `others` by name; the first one also writes the rest. Generators of
    Python, NumPy and torch are equal on all ranks.
    """
    ranks = trainer.ranks.all if trainer else Ranks()
    trainers = {"": trainer} if trainer else {}
    files = {} if trainer else {part_name(WEIGHTS, ranks.index): _copied(policy.state())}
    for prefix, each in (trainers | {f"{name}-": other for name, other in (others or {}).items()}).items():
        files[part_name(f"{prefix}{WEIGHTS}", ranks.index)] = _copied(each.weights())
        files[part_name(f"{prefix}{OPTIMIZER}", ranks.index)] = _copied(each.state())
    cut = {CUT: ROWS} if trainers and all(each.elements for each in (trainer, *(others or {}).values())) else {}
    text = _rest(files, state, {"ranks": ranks.count, **cut}, generators or {}) if ranks.first else None

    def finish() -> None:
        if text is not None:
            (folder / "state.json").write_text(text)
        for name, tensors in files.items():
            try:
                save_file(tensors, folder / name)
            except SafetensorError as error:  # what it says of a full disk
                raise OSError(f"{name}: {error}") from error

    return finish


def _rest(
    files: dict[str, dict[str, Tensor]],
    state: TrainingState,
    layout: Mapping[str, Any],
    generators: Mapping[str, Generator],
) -> str:
    """Add generators and the caller's own tensors to `files`; return the text of state.json."""
    tensors = {GLOBAL_TORCH: torch.get_rng_state()}
    if torch.cuda.is_available():
        tensors[GLOBAL_CUDA] = torch.cuda.get_rng_state()
    others: dict[str, Any] = {"global/python": random.getstate(), "global/numpy": _numpy_global()}
    for name, generator in generators.items():
        if isinstance(generator, torch.Generator):
            tensors[name] = generator.get_state()
        elif isinstance(generator, random.Random):
            others[name] = generator.getstate()
        else:
            others[name] = generator.bit_generator.state
    files[GENERATORS] = tensors
    for name, tensor in _copied(state.tensors).items():
        files.setdefault(f"{OWN}{name.partition('|')[0]}.safetensors", {})[name] = tensor
    content = {"step": state.step, **layout, "extra": state.extra, "generators": others}
    return json.dumps(content, sort_keys=True, default=_as_list)


def load_training_state(
    folder: Path,
    *,
    policy: Policy,
    trainer: Trainer | None = None,
    generators: Mapping[str, Generator] | None = None,
    others: Mapping[str, Trainer] | None = None,
    part: Part | None = None,
) -> TrainingState:
    """Restore in place what `save_training_state` wrote and return the loop's position.

    `part` gives the path of a rank's part by its name, where they are not in the folder yet. A rank that holds shards
    asks for those with a piece of its own, and reads that.

    Raises CorruptArtifact when the folder lacks a generator that the caller names, or the part of a rank.
    """
    content = json.loads((folder / "state.json").read_text())
    part = part or folder.__truediv__
    if trainer is None:
        policy.load_state(joined(_parts(part, WEIGHTS, content["ranks"]), _shapes(policy)))
    else:
        _restore(part, "", trainer, content)
    for name, other in (others or {}).items():
        _restore(part, f"{name}-", other, content)
    tensors, states = load_file(folder / GENERATORS), content["generators"]
    for name, generator in (generators or {}).items():
        if name not in tensors and name not in states:
            raise CorruptArtifact(f"{folder}: the checkpoint holds no state of generator {name!r}")
        if isinstance(generator, torch.Generator):
            generator.set_state(tensors[name])
        elif isinstance(generator, random.Random):
            generator.setstate(_python_state(states[name]))
        else:
            generator.bit_generator.state = states[name]
    torch.set_rng_state(tensors[GLOBAL_TORCH])
    if GLOBAL_CUDA in tensors and torch.cuda.is_available():
        torch.cuda.set_rng_state(tensors[GLOBAL_CUDA])
    random.setstate(_python_state(states["global/python"]))
    name, keys, *rest = states["global/numpy"]
    np.random.set_state((name, np.array(keys, dtype=np.uint32), *rest))
    own: dict[str, Tensor] = {}
    for path in sorted(folder.glob(f"{OWN}*.safetensors")):
        own |= load_file(path)
    return TrainingState(content["step"], content["extra"], own)


def _restore(part: Part, prefix: str, trainer: Trainer, content: Mapping[str, Any]) -> None:
    """Restore a trainer from ranks' parts whose names begin with `prefix`; from those it needs, if it can tell."""
    shapes, ranks, elements = _shapes(trainer.policy), content["ranks"], trainer.elements
    kinds = f"{prefix}{WEIGHTS}", f"{prefix}{OPTIMIZER}"
    if elements is not None and content.get(CUT) == ROWS:
        weights, states = (OwnParts(kind, ranks, part, elements) for kind in kinds)
        trainer.load_weights(weights.weights(shapes))
        trainer.load_state(states.states(shapes))
        return
    weights, states = (joined(_parts(part, kind, ranks), shapes) for kind in kinds)
    trainer.load_weights(weights)
    trainer.load_state(states)


def _shapes(policy: Policy) -> dict[str, torch.Size]:
    """Return the shapes of whole trainable parameters, of which a rank may hold a part."""
    held = {name: getattr(parameter, "ds_shape", parameter.shape) for name, parameter in policy.trainable()}
    return {name: policy.whole_shape(name, shape) for name, shape in held.items()}


def _parts(part: Part, kind: str, count: int) -> list[dict[str, Tensor]]:
    paths = [part(part_name(kind, rank)) for rank in range(count)]
    there = sum(path.is_file() for path in paths)
    if there != count:
        raise CorruptArtifact(f"{paths[0].parent}: {there} of {count} parts {kind}<rank>.safetensors are there")
    return [load_file(path) for path in paths]


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
