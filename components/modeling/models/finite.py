"""Whether a model's weights are numbers: one that is not makes all that is sampled or trained worth nothing."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import torch
from torch import Tensor, nn

from components.contract.errors import InputError
from components.modeling.models.stored_weights import StoredWeights


@torch.no_grad()
def check_finite(module: nn.Module, folder: Path) -> None:
    """Raise InputError, with file and tensor, if a weight that was loaded from a folder is NaN or infinite.

    Each weight is read once; those that are not loaded yet are left out.
    """
    if all(_is_finite(weight) for weight in module.parameters()):
        return
    refuse_not_finite(folder)
    dtype = next(weight.dtype for weight in module.parameters() if not _is_finite(weight))
    name = str(dtype).removeprefix("torch.")
    raise InputError(f"{folder}: a weight is too large for {name}; take float32 or bfloat16 as dtype")


def refuse_not_finite(folder: Path, names: Iterable[str] | None = None) -> None:
    """Raise InputError for the first stored tensor, of `names` or of all, that has a NaN or an infinity."""
    stored = StoredWeights(folder)
    for name in sorted(stored if names is None else names):
        weight = stored[name]
        if _is_finite(weight):
            continue
        wrong = int((~weight.isfinite()).sum())
        raise InputError(
            f"{folder / stored.file_of(name)}: {name} has {wrong} of {weight.numel()} weights that are NaN or "
            "infinite: the model is broken; take a copy or a checkpoint from before that"
        )


def _is_finite(weight: Tensor) -> bool:
    """Return whether all numbers of a tensor are finite, without a second tensor of its size."""
    if weight.is_meta or not weight.numel() or not weight.is_floating_point() or weight.dtype.itemsize < 2:
        return True
    least, largest = weight.aminmax()  # NaN goes through both
    return bool(least.isfinite() & largest.isfinite())
