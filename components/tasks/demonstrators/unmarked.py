"""What another demonstrator writes, without the mark of a thought: a plain answer that shows its work."""

from __future__ import annotations

import random
from typing import Annotated

from pydantic import field_validator

from components.contract.errors import InputError
from components.contract.operators import OperatorSpec
from components.contract.params import Params
from components.tasks.answers import THINK_CLOSE
from components.tasks.demonstrators.chain_sum_trace import THINK_OPEN
from components.tasks.item import Item
from components.tasks.slots import DEMONSTRATOR


class UnmarkedConfig(Params):
    """Whose text."""

    demonstrator: Annotated[OperatorSpec, DEMONSTRATOR]
    """Who writes, with settings of its own."""

    @field_validator("demonstrator")
    @classmethod
    def _known(cls, spec: OperatorSpec) -> OperatorSpec:
        spec.resolve()
        return spec


def unmarked(item: Item, rng: random.Random, *, config: UnmarkedConfig) -> str:
    """Write `1: no 2:413 3: no 4: no<answer>2413` where the inner demonstrator has `<think>` before it.

    Source: ToTRL, whose first stage has the mode of thinking off and the tree in the answer itself.
    """
    written = config.demonstrator.resolve()(item, rng)
    if not isinstance(written, str):
        raise InputError(f"demonstrator unmarked: {config.demonstrator.name} writes several turns, one text is needed")
    return written.replace(THINK_OPEN, "").replace(THINK_CLOSE, "")
