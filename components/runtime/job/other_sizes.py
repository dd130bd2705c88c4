"""Checkpoints of the same work on another number of processes: the job does not continue from them, and says so.

The number of processes is part of a fingerprint, since it changes the order of sums. A state does not depend on it, so
the same settings as before continue where they stopped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from components.runtime.ledger.fingerprint import Fingerprint
from components.runtime.store import Store

ROOT = "partial/"
SIZES = (*range(1, 17), 24, 32, 48, 64, 96, 128, 256)
ZERO_STAGES = range(4)
TOGETHER = (1, 2, 4, 8, 16)
TRAINER = ("trainer", "zero_stage", "processes", "offload", "gather", "tensor_parallel", "context_parallel")
"""Parts of a fingerprint that say how the training is shared out."""


def other_size(store: Store, mark: Fingerprint) -> str | None:
    """Return which settings would continue this work from a checkpoint, as a warning; None if there is no such."""
    steps = _steps(store)
    if not steps:
        return None
    own = mark.parts.get("backends", {})
    kept = {name: value for name, value in own.items() if name not in TRAINER}
    found = []
    for shared in _ways():
        backends = {**kept, **shared}
        parts = {name: value for name, value in mark.parts.items() if name != "backends"}
        digest = Fingerprint.of(parts | ({"backends": backends} if backends else {})).digest
        if digest in steps and digest != mark.digest:
            found.append((steps[digest], shared))
    if not found:
        return None
    step, shared = max(found, key=lambda one: one[0])
    count = shared.get("processes", 1)
    return (
        f"the checkpoint of step {step} was made on {count} process{'es' if count > 1 else ''}, and this attempt, on "
        f"{own.get('processes', 1)}, begins anew; `backend: {{{_written(shared)}}}` on {count} in all goes on from it"
    )


def _steps(store: Store) -> dict[str, int]:
    """Return fingerprint -> newest step of all partial checkpoints."""
    steps: dict[str, int] = {}
    for blob in store.blobs.list(ROOT):
        fingerprint, _, rest = blob.key.removeprefix(ROOT).partition("/")
        step = rest.partition("-")[0]
        if step.isdigit() and rest.endswith("/manifest.json"):  # which commits it
            steps[fingerprint] = max(int(step), steps.get(fingerprint, 0))
    return steps


def _ways() -> Iterator[dict[str, Any]]:
    """Yield the parts of a fingerprint for every way to share out a training."""
    yield {}
    for size in SIZES:
        for gather in ({}, {"gather": "model"}, {"gather": "layer"}):
            for groups in _groups(size):
                yield {"trainer": "fsdp", "processes": size, **gather, **groups}
    for stage in ZERO_STAGES:
        for size in SIZES:
            for offload in ({}, {"offload": "optimizer"}, {"offload": "all"}):
                yield {"trainer": "deepspeed", "zero_stage": stage, "processes": size, **offload}


def _groups(size: int) -> Iterator[dict[str, int]]:
    """Yield how `size` processes may compute batches together."""
    for tensor in (count for count in TOGETHER if size % count == 0):
        for context in (count for count in TOGETHER if size // tensor % count == 0):
            given = {"tensor_parallel": tensor, "context_parallel": context}
            yield {name: count for name, count in given.items() if count > 1}


def _written(shared: Mapping[str, Any]) -> str:
    """Return the settings as a recipe names them; processes are counted on all nodes, so they are told apart."""
    named = {"trainer": "torch", **shared}
    return ", ".join(f"{name}: {value}" for name, value in named.items() if name != "processes")
