"""Batches as plain JSON, for buffers in operators' memory.

Shapes as in components/rl/batch/batch.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from components.rl.batch.batch import TENSORS, Batch, Prompt

_DTYPES = {"bool": torch.bool, "int64": torch.int64, "float32": torch.float32, "float64": torch.float64}


def batch_to_json(batch: Batch) -> dict[str, Any]:
    """Return everything except the prompts' items, kept by id only; floats round-trip bit for bit."""
    return {
        "prompts": [[prompt.item.id, list(prompt.tokens)] for prompt in batch.prompts],
        "texts": list(batch.texts),
        "tensors": {name: _to_json(vars(batch)[name]) for name in TENSORS},
        "extras": {name: _to_json(value) for name, value in batch.extras.items()},
        "context": batch.context,
        "earlier_turns": batch.earlier_turns,
        "around": None if batch.around is None else batch_to_json(batch.around),
    }


def batch_from_json(saved: Mapping[str, Any], pool: Iterable[Prompt]) -> Batch:
    """Restore what `batch_to_json` returned; `pool` (as in a SlotContext) supplies the items of its prompts."""
    known = list(pool)
    prompts = {prompt.item.id: prompt for prompt in known}
    around = saved["around"]
    return Batch(
        prompts=tuple(replace(prompts[item_id], tokens=tuple(tokens)) for item_id, tokens in saved["prompts"]),
        texts=tuple(saved["texts"]),
        **{name: _from_json(value) for name, value in saved["tensors"].items()},
        extras={name: _from_json(value) for name, value in saved["extras"].items()},
        context=_tuples(saved["context"]),
        earlier_turns=_tuples(saved["earlier_turns"]),
        around=None if around is None else batch_from_json(around, known),
    )


def _tuples(saved: Sequence[Sequence[Any]] | None) -> tuple[tuple[Any, ...], ...] | None:
    return None if saved is None else tuple(map(tuple, saved))


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
