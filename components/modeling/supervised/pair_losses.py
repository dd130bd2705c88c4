"""Losses of comparisons, as pure functions of how likely responses are; every loss of preferences is made of these.

Shapes: P pairs, S responses, E examples that the responses belong to. Log-probabilities are natural.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

LOG_HALF = -0.6931471805599453


def logistic_loss(margin: Tensor, smoothing: float = 0.0) -> Tensor:
    """Return [P]: -(1 - s) log sigmoid(m) - s log sigmoid(-m), of margins m [P] and the share s of flipped labels.

    Bradley and Terry's likelihood, as in DPO (Rafailov et al. 2023, arXiv:2305.18290, eq. 7); with s, conservative DPO.
    """
    loss = -logsigmoid(margin)
    return loss if not smoothing else (1 - smoothing) * loss - smoothing * logsigmoid(-margin)


def squared_loss(gap: Tensor, beta: float) -> Tensor:
    """Return [P]: (gap - 1 / (2 beta))², of gaps of log-ratios [P] (Azar et al. 2023, arXiv:2310.12036, eq. 17)."""
    return (gap - 1 / (2 * beta)) ** 2


def log_odds_gap(chosen: Tensor, rejected: Tensor) -> Tensor:
    """Return [P]: log odds of `chosen` less those of `rejected`, both mean log-probabilities a token [P].

    Hong et al. 2024 (ORPO, arXiv:2403.07691, eq. 4).
    """
    return (chosen - rejected) - (_log_complement(chosen) - _log_complement(rejected))


def value_loss(gap: Tensor, desirable: Tensor) -> Tensor:
    """Return [S]: 1 - sigmoid(gap) where a response is desirable, 1 - sigmoid(-gap) elsewhere; `gap` is [S].

    Kahneman and Tversky's value function (Ethayarajh et al. 2024, KTO, arXiv:2402.01306, eq. 7).
    """
    return 1 - torch.sigmoid(torch.where(desirable, gap, -gap))


def hinge_ranking_loss(values: Tensor, scores: Tensor, example: Tensor, count: int) -> Tensor:
    """Return [E]: the sum of max(0, v_j - v_i) over responses i of an example that score above j.

    `values`, `scores` and `example` are [S]. Yuan et al. 2023 (RRHF, arXiv:2304.05302, eq. 2).
    """
    hinges = torch.relu(values.unsqueeze(0) - values.unsqueeze(1)) * above(scores, example)
    return _by_example(hinges.sum(1), example, count)


def listwise_loss(values: Tensor, scores: Tensor, example: Tensor, count: int) -> Tensor:
    """Return [E]: the sum over responses i of -log(exp v_i / (exp v_i + the sum of exp v_j over j that score below)).

    `values`, `scores` and `example` are [S]; responses without one below count nothing, equal scores do not compete.
    Song et al. 2023 (PRO, arXiv:2306.17492, eq. 5), for two responses -log sigmoid(v_1 - v_2).
    """
    beats = above(scores, example)
    rivals = beats | torch.eye(len(values), dtype=torch.bool, device=values.device)
    normalizer = torch.logsumexp(values.unsqueeze(0).masked_fill(~rivals, float("-inf")), 1)
    return _by_example((normalizer - values) * beats.any(1), example, count)


def above(scores: Tensor, example: Tensor) -> Tensor:
    """Return [S, S]: whether the response of a row scores above that of a column, in the same example."""
    same = example.unsqueeze(1) == example.unsqueeze(0)
    return same & (scores.unsqueeze(1) > scores.unsqueeze(0))


def _by_example(values: Tensor, example: Tensor, count: int) -> Tensor:
    return values.new_zeros(count).index_add(0, example, values)


def _log_complement(logprob: Tensor) -> Tensor:
    """Return log(1 - exp(x)); of the two forms each is exact where the other cancels."""
    return torch.where(
        logprob < LOG_HALF,
        torch.log1p(-torch.exp(logprob)),
        torch.log(-torch.expm1(logprob.clamp(max=-torch.finfo(logprob.dtype).tiny))),
    )
