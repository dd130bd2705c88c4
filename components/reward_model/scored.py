"""What a scorer loss is given: the head's outputs at the places of some rows, and what they should be.

Shapes: U rows (pairs, labelled responses, or responses in steps), M places in all, K outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Scored:
    """Rows of one pass, with gradients."""

    outputs: Tensor
    """[M, K] float32: row after row, and of a pair the chosen side before the rejected one."""
    row: Tensor
    """[M] which of the U rows each place belongs to."""
    targets: Tensor
    """[U]: the margin of a pair, 0 where its row has none, or the label of a response. For steps [M]: their labels."""
    numbers: Sequence[int]
    """U numbers of these rows in the data: the same whenever they are drawn."""
    seed: int = 0
    """Of the stage."""

    @property
    def num_rows(self) -> int:
        """Return U."""
        return len(self.numbers)

    @property
    def sides(self) -> tuple[Tensor, Tensor]:
        """Return the outputs of chosen and rejected responses, [U, K] each."""
        chosen, rejected = self.outputs.view(self.num_rows, 2, -1).unbind(1)
        return chosen, rejected

    def row_sum(self, values: Tensor) -> Tensor:
        """Return [U]: the sums over each row's places of values [M]."""
        return torch.zeros(self.num_rows, dtype=values.dtype, device=values.device).index_add(0, self.row, values)
