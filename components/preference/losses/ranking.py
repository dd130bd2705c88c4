"""Ranking losses over all responses to a task: RRHF's hinges, or PRO's list-wise likelihood; no reference."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from components.preference.compared import Compared, Loss
from components.preference.loss_config import Compares, PreferenceLossConfig


class RankingConfig(PreferenceLossConfig):
    """Which of the two, and its likelihood term."""

    compares: ClassVar[Compares] = "lists"
    reference: ClassVar[bool] = False
    form: Literal["rrhf", "pro"] = "rrhf"
    """rrhf: a hinge for each two responses that are ranked wrong. pro: the likelihood of the ranking, best first."""
    sft: float = Field(default=1.0, ge=0)
    """Weight of the negative log-likelihood of each list's best response, mean per token of the batch."""


def ranking(compared: Compared, *, config: RankingConfig) -> Loss:
    """Return [E]: the ranking loss of each list, of mean log-probabilities a token.

    Sources: Yuan et al. 2023, RRHF (arXiv:2304.05302), eqs. 1 to 3; Song et al. 2023, PRO (arXiv:2306.17492), eqs. 5
    to 7, without the temperatures of its eq. 8.
    """
    from components.modeling.supervised.pair_losses import above, hinge_ranking_loss, listwise_loss

    values, example = compared.mean_logprobs(), compared.example
    loss = hinge_ranking_loss if config.form == "rrhf" else listwise_loss
    beats = above(compared.scores, example).to(values.dtype)
    gaps = values.detach().unsqueeze(1) - values.detach().unsqueeze(0)
    empty = values.new_zeros(compared.num_examples)
    counts = empty.index_add(0, example, beats.sum(1))
    margin, right = (empty.index_add(0, example, (found * beats).sum(1)) / counts for found in (gaps, (gaps > 0)))
    return Loss(loss=loss(values, compared.scores, example, compared.num_examples), margin=margin, accuracy=right)
