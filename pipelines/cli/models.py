"""Which model a command works on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from components.runtime.lineage.graph.references import without_scheme
from pipelines.cli.stores import run_of
from pipelines.models.find import OUTSIDE, FoundModel, find_model

if TYPE_CHECKING:
    from components.runtime.store import Store


def model_of(store: Store, text: str) -> FoundModel:
    """Return the model that `text` means; as a run, every command takes "latest" and a recipe's name."""
    reference = without_scheme(text)
    run, mark, output = reference.partition(":")
    if mark and "/" not in run and not reference.startswith(OUTSIDE):
        reference = f"{run_of(store, run)}:{output}"
    return find_model(store, reference)
