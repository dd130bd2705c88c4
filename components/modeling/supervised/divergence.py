"""Divergence of a model from a teacher at given positions, over the whole vocabulary or the teacher's top k.

Shapes: M positions, V the model's logits, U the teacher's, k tokens.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from components.modeling.packing.logprobs import at_least_float32


def teacher_divergence(
    student: Tensor, teacher: Tensor, *, temperature: float = 1.0, top_k: int | None = None
) -> Tensor:
    """Return [M]: KL(softmax(teacher / T) || softmax(student / T)) T², differentiable in `student` [M, V].

    `teacher` [M, U] may be padded to another width: ids that one of them lacks have no probability in the teacher. T²
    keeps the size of gradients (Hinton et al. 2015, arXiv:1503.02531, section 2). With `top_k`, the teacher's k
    likeliest tokens are matched, and the sum of all others as one more: a lower bound of the whole, 0 only where these
    k + 1 agree.
    """
    student = at_least_float32(student) / temperature
    teacher = at_least_float32(teacher)[:, : student.shape[1]].to(student.dtype) / temperature
    if top_k is None or top_k >= teacher.shape[1]:
        expected, found = torch.log_softmax(teacher, -1), torch.log_softmax(student, -1)[:, : teacher.shape[1]]
    else:
        chosen = teacher.topk(top_k, -1).indices
        expected, found = _with_rest(teacher, chosen), _with_rest(student, chosen)
    return (expected.exp() * (expected - found)).sum(-1) * temperature**2


def _with_rest(logits: Tensor, chosen: Tensor) -> Tensor:
    """Return [M, k + 1]: log-probabilities of the tokens `chosen` [M, k], and of all others together."""
    normalizer = torch.logsumexp(logits, -1, keepdim=True)
    others = logits.scatter(-1, chosen, -math.inf)  # summed itself: 1 minus the chosen would lose a small rest
    rest = torch.logsumexp(others, -1, keepdim=True)
    return torch.cat([logits.gather(-1, chosen), rest], -1) - normalizer
