"""The loss of a value model: at every token of a response, how it will turn out."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from components.contract.heads import Head
from components.modeling.scorers.layout import Layout
from components.reward_model.losses.pointwise import PointwiseConfig

if TYPE_CHECKING:
    from torch import Tensor

    from components.reward_model.scored import Scored


class ValueConfig(PointwiseConfig):
    """As pointwise, at every token."""

    by_place: ClassVar[bool] = True
    every_token: ClassVar[bool] = True

    def layout(self) -> Layout:
        """Return one output at every token; a response is rated by the one at its end."""
        return Layout(Head.STEPS)


def value(scored: Scored, *, config: ValueConfig) -> Tensor:
    """Return [M]: the loss of `pointwise` at each token of the response and its end, all with the response's target.

    Cobbe et al. 2021 (arXiv:2110.14168), section 4: token-level verifiers; with squared_error, the value function of
    the policy that wrote the responses, by Monte Carlo.
    """
    import torch

    values, targets = scored.outputs.squeeze(-1), scored.targets[scored.row]
    if config.loss == "squared_error":
        return (values - targets).square()
    return torch.nn.functional.binary_cross_entropy_with_logits(values, targets, reduction="none")
