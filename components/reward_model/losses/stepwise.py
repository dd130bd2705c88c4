"""The loss of a process reward model: each step is classified as right or wrong at the end of its separator."""

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


class StepwiseConfig(ScorerLossConfig):
    """What stands between steps."""

    rows: ClassVar[Kind] = "stepwise"
    by_place: ClassVar[bool] = True
    separator: str = Field(default="\n", min_length=1)
    """Text behind each step; its last token is where the step is scored."""

    @property
    def chances(self) -> bool:
        """Return True: the reward of a step is the probability that it is right."""
        return True

    def layout(self) -> Layout:
        """Return two classes of steps, wrong and right, as TRL has them."""
        return Layout(Head.STEPS, 2, "probability", self.separator)


def stepwise(scored: Scored, *, config: StepwiseConfig) -> Tensor:
    """Return [M]: the cross-entropy of each step's class, -y log p(right) - (1 - y) log p(wrong), y its label.

    Lightman et al. 2023 (arXiv:2305.20050), section 2; soft labels, such as shares of right ends: Wang et al. 2024
    (Math-Shepherd, arXiv:2312.08935), eq. 4.
    """
    logprobs = scored.outputs.log_softmax(-1)
    return -(scored.targets * logprobs[:, 1] + (1 - scored.targets) * logprobs[:, 0])
