"""Divergences of a student from a teacher at given positions, over the whole vocabulary or the teacher's top k.

The gradient is worked out beside the value and kept as one tensor, where autograd would keep several.

Shapes: M positions, V the student's logits, U the teacher's, W the narrower of both, k tokens.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
from torch import Tensor

from components.modeling.packing.logprobs import at_least_float32

Kind = Literal["forward_kl", "reverse_kl", "jsd"]


def generalised_divergence(
    student: Tensor, teacher: Tensor, *, kind: Kind, beta: float = 0.5, top_k: int | None = None
) -> Tensor:
    """Return [M]: the divergence of Q = softmax(student [M, V]) and P = softmax(teacher [M, U]).

    forward_kl: KL(P || Q). reverse_kl: KL(Q || P). jsd: beta KL(P || R) + (1 - beta) KL(Q || R) of the mixture
    R = beta P + (1 - beta) Q; divided by beta it becomes forward_kl as beta goes to 0, and divided by 1 - beta
    reverse_kl as it goes to 1. Differentiable in `student`.
    Source: Agarwal et al. 2024, GKD (arXiv:2306.13649), section 2 and equation 1.

    Ids beyond the narrower of both are padding of a matrix and left out. With `top_k`, the teacher's k likeliest tokens
    are compared, and the sum of all others as one more: a lower bound of the whole, 0 only where these k + 1 agree.
    """
    found: Tensor = _Divergence.apply(at_least_float32(student), teacher.detach(), kind, beta, top_k)
    return found


class _Divergence(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, student: Tensor, teacher: Tensor, kind: Kind, beta: float, top_k: int | None) -> Tensor:
        width = min(student.shape[1], teacher.shape[1])
        own = torch.log_softmax(student[:, :width], -1)
        shown = at_least_float32(teacher)[:, :width].to(own.dtype)
        if top_k is None or top_k >= width:
            value, slope = _compared(torch.log_softmax(shown, -1), own, kind, beta)
        else:
            chosen = shown.topk(top_k, -1).indices
            few = _with_rest(own, chosen)
            value, slopes = _compared(_with_rest(torch.log_softmax(shown, -1), chosen), few, kind, beta)
            # Of what the rest is to change, each token has its share of the rest.
            slope = (own - few[:, -1:]).exp_().mul_(slopes[:, -1:]).scatter_(-1, chosen, slopes[:, :-1])
        ctx.save_for_backward(slope)
        ctx.padding = student.shape[1] - width
        return value

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None, None]:
        (slope,) = ctx.saved_tensors
        grad = slope * grads[0].unsqueeze(-1)
        return torch.nn.functional.pad(grad, (0, ctx.padding)) if ctx.padding else grad, None, None, None, None


def _compared(logp: Tensor, logq: Tensor, kind: Kind, beta: float) -> tuple[Tensor, Tensor]:
    """Return the divergence [M] of log-probabilities [M, W], and its gradient [M, W] in the logits of Q.

    Of a divergence with slopes s_j = dD / dq_j the gradient is q_j (s_j - sum_i q_i s_i). Terms of probability 0 are 0.
    """
    q = logq.exp()
    if kind == "forward_kl":
        p = logp.exp()
        return _terms(p, logp - logq).sum(-1), q - p
    if kind == "reverse_kl":
        parts = _terms(q, logq - logp)
        value = parts.sum(-1)
        return value, parts.sub_(q.mul_(value.unsqueeze(-1)))
    mixed = torch.logaddexp(logp + math.log(beta), logq + math.log1p(-beta))
    parts = _terms(q, logq - mixed)
    from_mixture = parts.sum(-1)
    value = beta * _terms(logp.exp(), logp - mixed).sum(-1) + (1 - beta) * from_mixture
    return value, parts.sub_(q.mul_(from_mixture.unsqueeze(-1))).mul_(1 - beta)


def _terms(weights: Tensor, logs: Tensor) -> Tensor:
    """Return weights times logs, 0 where a weight is 0: logs may be infinite there."""
    return logs.mul_(weights).masked_fill_(weights == 0, 0.0)


def _with_rest(logs: Tensor, chosen: Tensor) -> Tensor:
    """Return [M, k + 1]: log-probabilities of the tokens `chosen` [M, k], and of all others together."""
    others = logs.scatter(-1, chosen, -math.inf)  # summed itself: 1 minus the chosen would lose a small rest
    return torch.cat([logs.gather(-1, chosen), torch.logsumexp(others, -1, keepdim=True)], -1)
