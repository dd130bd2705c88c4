"""Batches as plain JSON, for buffers that operators keep in their memory between steps.

Shapes as in components/rl/batch/batch.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from components.rl.batch.batch import PER_RESPONSE, PER_TOKEN, Batch, Prompt

_DTYPES = {"bool": torch.bool, "int64": torch.int64, "float32": torch.float32, "float64": torch.float64}


def batch_to_json(batch: Batch) -> dict[str, Any]:
    """Return everything but the prompts' items, of which the ids are kept; floats come back bit for bit."""
    return {
        "prompts": [[prompt.item.id, list(prompt.tokens)] for prompt in batch.prompts],
        "texts": list(batch.texts),
        "tensors": {name: _to_json(vars(batch)[name]) for name in ("group", *PER_RESPONSE, *PER_TOKEN)},
        "extras": {name: _to_json(value) for name, value in batch.extras.items()},
    }


def batch_from_json(saved: Mapping[str, Any], pool: Iterable[Prompt]) -> Batch:
    """Restore what `batch_to_json` returned; `pool` (as in a SlotContext) holds the items of its prompts."""
    items = {prompt.item.id: prompt.item for prompt in pool}
    return Batch(
        prompts=tuple(Prompt(items[item_id], tuple(tokens)) for item_id, tokens in saved["prompts"]),
        texts=tuple(saved["texts"]),
        **{name: _from_json(value) for name, value in saved["tensors"].items()},
        extras={name: _from_json(value) for name, value in saved["extras"].items()},
    )


def _to_json(value: Tensor) -> dict[str, Any]:
    dtype = str(value.dtype).removeprefix("torch.")
    assert dtype in _DTYPES, dtype
    numbers = value.tolist()
    if value.is_floating_point():
        assert value.ndim == 1
        numbers = [None if math.isnan(number) else number for number in numbers]  # JSON has no NaN
    return {"dtype": dtype, "values": numbers}


def _from_json(saved: Mapping[str, Any]) -> Tensor:
    numbers = [math.nan if number is None else number for number in saved["values"]]
    return torch.tensor(numbers, dtype=_DTYPES[saved["dtype"]])
