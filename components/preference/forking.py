"""Which parameters of preference optimisation may differ from a checkpoint on. Does not import torch."""

from __future__ import annotations

from collections.abc import Iterator

from components.contract.forking import Held
from components.modeling.supervised.forking import misfits as supervised_misfits
from components.preference.params import PreferenceParams

REFERENCE_FILE = "tensors-reference"


def misfits(before: PreferenceParams, now: PreferenceParams, held: Held) -> Iterator[str]:
    """Yield why a checkpoint made with `before` cannot go on with `now`, one line each; the loss may be another."""
    yield from supervised_misfits(before, now.model_copy(update={"preference_loss": before.preference_loss}), held)
    was, becomes = before.comparing, now.comparing
    name = now.preference_loss.name
    if was.compares != becomes.compares:
        yield f"preference_loss {name!r} compares {becomes.compares}, and the steps before compared {was.compares}"
    elif was.divergence != becomes.divergence:
        yield f"preference_loss {name!r} asks the reference for other responses than the steps before did"
    elif becomes.reference and not held.has(REFERENCE_FILE):
        yield f"preference_loss {name!r} reads what the reference says, and the checkpoint does not hold it"
