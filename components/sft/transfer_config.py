"""Parameters of meta-transfer, free of torch so that declarations can import them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from components.contract.operators import OperatorSpec
from components.contract.params import Params
from components.sft.slots import WEIGHTING


class TransferConfig(Params):
    """How source tasks, the domains of the demonstrations but one, are weighed by what they do for that one."""

    target: str = Field(min_length=1)
    """The domain whose loss rewards the others; it is not trained on."""
    weighting: Annotated[OperatorSpec, WEIGHTING] = OperatorSpec(name="reinforced")
    """How the weights of the tasks are found."""
    inner_steps: int = Field(default=4, ge=1)
    """Optimiser steps of a task's copy, each on `batch_size` of its rows; each copy has an optimiser of its own."""
    rate: float = Field(default=0.1, gt=0, le=1)
    """How far the model goes towards the weighted mean of the copies."""
    target_rows: int = Field(default=32, ge=1)
    """Rows of the target in each step on which copies are compared; at most all of them."""
