"""The loss of step rewards that add up to the outcome: how much each step brought the response forward."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from components.contract.heads import Head
from components.modeling.scorers.layout import Layout
from components.reward_model.config import ScorerLossConfig
from components.tasks.row_kinds.reading import Kind

if TYPE_CHECKING:
    from torch import Tensor

    from components.reward_model.scored import Scored


class ProgressSumConfig(ScorerLossConfig):
    """What stands between steps."""

    rows: ClassVar[Kind] = "stepwise"
    separator: str = Field(default="\n", min_length=1)
    """Text behind each step; its last token is where the step is scored."""

    def layout(self) -> Layout:
        """Return one output at each step; a response is rated by their sum."""
        return Layout(Head.STEPS, 1, "only", self.separator, "sum")


def progress_sum(scored: Scored, *, config: ProgressSumConfig) -> Tensor:
    """Return [U]: (sum over steps of their scores - outcome)^2, the outcome being the label of the last step.

    Source: Wang et al. 2025, SPA-RL (Stepwise Progress Attribution): step contributions that are fitted to sum to the
    return. The labels of earlier steps are not read.
    """
    import torch

    last = torch.cat([scored.row[1:] != scored.row[:-1], scored.row.new_ones(1, dtype=torch.bool)])
    return (scored.row_sum(scored.outputs.squeeze(-1)) - scored.targets[last]).square()
