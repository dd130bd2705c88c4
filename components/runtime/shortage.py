"""Out of memory: how it shows, and what to tell people then."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from components.contract.artifacts import ArtifactType
from components.contract.component import Component, Params
from components.contract.context import Input
from components.contract.job import Job
from components.contract.memory import knobs_in_words

SIGNS = ("out of memory", "can't allocate memory", "cannot allocate memory")


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error is that of Python, torch on a CPU or CUDA for want of memory."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return isinstance(error, RuntimeError | OSError) and any(sign in str(error).lower() for sign in SIGNS)


def what_to_turn(job: Job, component: Component, params: Params, inputs: Iterable[Input]) -> str:
    """Return what would take less memory, in words; a plain remark where the stage's needs are not known."""
    estimate = component.memory and component.memory(params, _model_sizes(inputs), job.resources)
    if not estimate:
        return "take a larger pool"
    return (
        f"turn {knobs_in_words(estimate)}, or take a larger pool; it was estimated to need, in GiB: {estimate.parts()}"
    )


def _model_sizes(inputs: Iterable[Input]) -> Any:
    from components.modeling.memory_needs import ModelSizes

    for item in inputs:
        config = Path(item.path) / "config.json"
        if item.type is ArtifactType.MODEL and config.is_file():
            return ModelSizes.from_config(json.loads(config.read_text(encoding="utf-8")))
    return None
