"""An optimiser's averages as an artifact: a later stage that trains the same model goes on with them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from torch import Tensor

from components.contract.errors import InputError
from components.modeling.training.master import MASTER
from components.modeling.training.plain import TorchTrainer
from components.modeling.training.trainer import Trainer

AVERAGES, ABOUT = "averages.safetensors", "optimizer.json"


def save_averages(folder: Path, trainer: Trainer, name: str) -> None:
    """Write the averages of a trainer with optimiser `name`; all ranks call it, the first writes.

    Float32 copies of weights are left out: the model of the same stage holds the weights.
    """
    averages = {key: value.detach().cpu().contiguous() for key, value in _whole(trainer).items() if _is_average(key)}
    if trainer.ranks.all.first:
        save_file(averages, folder / AVERAGES)
        (folder / ABOUT).write_text(json.dumps({"optimizer": name, "weights": _weights(trainer)}, sort_keys=True))


def load_averages(folder: Path, trainer: Trainer, name: str) -> None:
    """Go on with averages that `save_averages` wrote, under a schedule that begins anew; all ranks call it.

    Raises InputError for those of another optimiser or of other weights.
    """
    about: Mapping[str, Any] = json.loads((folder / ABOUT).read_text())
    if about["optimizer"] != name:
        raise InputError(
            f"the averages at input `optimizer` are of {about['optimizer']!r}, and the stage trains with {name!r}; set "
            "optimizer.name to the former, or leave the input out"
        )
    there, here = about["weights"], _weights(trainer)
    if differing := sorted(key for key in there.keys() | here.keys() if there.get(key) != here.get(key)):
        key = differing[0]
        raise InputError(
            f"the averages at input `optimizer` are of another model: {key} is {there.get(key, 'absent')} there and "
            f"{here.get(key, 'absent')} here; connect those of the stage that made the input model"
        )
    masters = {key: value for key, value in _whole(trainer).items() if not _is_average(key)}
    trainer.load_state({**load_file(folder / AVERAGES), **masters})


def _whole(trainer: Trainer) -> dict[str, Tensor]:
    if not isinstance(trainer, TorchTrainer):
        raise InputError(
            "averages are kept whole, and this trainer divides them over ranks; set `backend: {trainer: torch}` on the "
            "stage, or let it begin anew"
        )
    return trainer.optimizer.state()


def _is_average(key: str) -> bool:
    return not key.startswith(f"{MASTER}/")


def _weights(trainer: Trainer) -> dict[str, list[int]]:
    """Return the shape of every trained parameter by name."""
    return {name: list(parameter.shape) for name, parameter in trainer.policy.trainable()}
