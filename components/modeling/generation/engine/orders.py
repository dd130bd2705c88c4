"""Draws that a stage has ordered from its engine: answered in turn, while the engine draws further ones."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from components.modeling.generation.engine.engine_process import EngineFailed, EngineProcess, EngineStuck
from components.modeling.generation.engine.frames import Arrays
from components.modeling.generation.engine.requests import Request, to_arrays
from components.modeling.generation.sampling_config import SamplingConfig


@dataclass
class Order:
    """One draw."""

    doing: str
    """What errors say of it."""
    arrays: Arrays
    settings: Mapping[str, Any]
    steady: bool
    """Whether the policy keeps the weights that it is drawn with until it is answered."""
    found: Arrays | None = field(default=None, init=False)


class Orders:
    """Orders without an answer, oldest first."""

    def __init__(self) -> None:
        self._open: deque[Order] = deque()

    def __len__(self) -> int:
        return len(self._open)

    @property
    def steady(self) -> bool:
        """Whether another engine may draw all of them."""
        return all(order.steady for order in self._open)

    def place(self, engine: EngineProcess, order: Order) -> None:
        """Hand an order to the engine, which begins to draw."""
        engine.call("sample", order.doing, order.arrays, **order.settings)
        self._open.append(order)

    def answer(self, engine: EngineProcess, order: Order) -> Arrays:
        """Return the answer to an order, after those of the orders before it."""
        while order.found is None:
            if order not in self._open:
                raise EngineFailed(f"the engine ended {order.doing}")
            self._answer_first(engine)
        return order.found

    def finish(self, engine: EngineProcess) -> None:
        """Wait for all answers."""
        while self._open:
            self._answer_first(engine)

    def again(self, engine: EngineProcess) -> None:
        """Hand all open orders to another engine."""
        for order in self._open:
            engine.call("sample", order.doing, order.arrays, **order.settings)

    def clear(self) -> None:
        """Forget all open orders."""
        self._open.clear()

    def _answer_first(self, engine: EngineProcess) -> None:
        first = self._open[0]
        try:
            first.found = engine.call("collect", first.doing)[1]
        except EngineStuck:
            raise  # another engine may draw it
        except BaseException:
            self._open.popleft()
            raise
        self._open.popleft()


def order_of(
    requests: list[Request],
    config: SamplingConfig,
    ends: frozenset[int],
    generator: torch.Generator,
    *,
    steady: bool,
) -> Order:
    """Return the order of what has to be drawn, with one seed for each request."""
    drawing = [request for request in requests if request.limit]
    seeds = torch.zeros(len(drawing), dtype=torch.int64)
    if not config.greedy:
        seeds = torch.randint(2**62, (len(drawing),), generator=generator)
    doing = f"while it drew {sum(len(request.rows) for request in requests)} responses"
    settings = {"temperature": config.temperature, "top_p": config.top_p, "top_k": config.top_k, "stop": sorted(ends)}
    return Order(doing, to_arrays(drawing, seeds, greedy=config.greedy), settings, steady)
