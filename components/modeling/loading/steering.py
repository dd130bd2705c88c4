"""Steering a model of transformers: directions added to what its blocks read and return.

Shapes: D model width.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import Tensor, nn


@contextmanager
def steering(blocks: Sequence[nn.Module], directions: Mapping[int, Tensor]) -> Iterator[None]:
    """Add directions [D] inside: at 0 to what the first block reads, at i to what the i-th one returns.

    The hooks come before those by which transformers notes `hidden_states`, which are then the steered ones.
    """
    with ExitStack() as hooks:
        for depth, direction in directions.items():
            if depth == 0:
                handle = blocks[0].register_forward_pre_hook(_before(direction), prepend=True, with_kwargs=True)
            else:
                handle = blocks[depth - 1].register_forward_hook(_after(direction), prepend=True)
            hooks.callback(handle.remove)
        yield


def _before(direction: Tensor) -> Any:
    def add(block: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if args:
            return (args[0] + direction, *args[1:]), kwargs
        return args, {**kwargs, "hidden_states": kwargs["hidden_states"] + direction}

    return add


def _after(direction: Tensor) -> Any:
    def add(block: nn.Module, args: tuple[Any, ...], found: Any) -> Any:
        return found + direction if isinstance(found, Tensor) else (found[0] + direction, *found[1:])

    return add
