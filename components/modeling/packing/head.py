"""Log-probabilities and entropies straight from hidden states, where logits are one matrix product and maybe a cap.

Only two numbers a position are kept for the backward pass, which computes each chunk's logits again and turns them into
their gradient in place: no chunk adds to the matrix's gradient on its own way through autograd.

Shapes: M positions, V vocabulary, D model width.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, distributed

from components.modeling.packing.compiled import Compiled
from components.modeling.ranks import Ranks


@dataclass(frozen=True)
class Head:
    """The map from final hidden states to logits."""

    weight: Tensor
    """[V, D]"""
    cap: float | None = None
    """Products s become cap * tanh(s / cap), if it is given."""
    ranks: Ranks = field(default_factory=Ranks)
    """Those that have equal parts of the vocabulary, in order: `weight` is this rank's."""

    @property
    def first(self) -> int:
        """Return the first token of this rank's part."""
        return self.ranks.index * self.weight.shape[0]


def head_scores(
    head: Head, hidden: Tensor, targets: Tensor, temperature: float, entropy: bool, rows: int
) -> tuple[Tensor, Tensor | None]:
    """Return log-probabilities [M] of targets [M] from hidden [M, D] and, if asked, entropies; `rows` at a time."""
    how = (head.cap, temperature, entropy, rows, head.ranks)
    logprobs, entropies = _HeadScores.apply(hidden, head.weight, targets - head.first, how)
    return logprobs, entropies if entropy else None


class _HeadScores(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, targets: Tensor, how: tuple[float | None, float, bool, int, Ranks]
    ) -> tuple[Tensor, Tensor]:
        cap, temperature, entropy, rows, ranks = how
        score = scores_of if ranks.count == 1 else partial(parted_scores_of, group=ranks.group)
        parts = [
            score(part @ weight.t(), wanted, cap, temperature, entropy)
            for part, wanted in zip(hidden.split(rows), targets.split(rows), strict=True)
        ]
        logprobs, normalizers, entropies = (torch.cat(column) for column in zip(*parts, strict=True))
        ctx.save_for_backward(hidden, weight, targets, normalizers, entropies)
        ctx.how = how
        return logprobs, entropies

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        hidden, weight, *given = ctx.saved_tensors
        cap, temperature, entropy, rows, ranks = ctx.how
        grad_hidden = torch.empty_like(hidden) if ctx.needs_input_grad[0] else None
        grad_weight = torch.zeros_like(weight) if ctx.needs_input_grad[1] else None
        pieces = (tensor.split(rows) for tensor in (hidden, *given, *grads))
        for start, (part, *scored) in zip(range(0, len(hidden), rows), zip(*pieces, strict=True), strict=True):
            grad = gradient_of(part @ weight.t(), *scored, cap, temperature, entropy)
            if grad_hidden is not None:
                torch.mm(grad, weight, out=grad_hidden[start : start + rows])
            if grad_weight is not None:
                grad_weight.addmm_(grad.t(), part)
        if grad_hidden is not None and ranks.count > 1:
            distributed.all_reduce(grad_hidden, group=ranks.group)
        return grad_hidden, grad_weight, None, None


def _scaled(products: Tensor, cap: float | None, temperature: float) -> Tensor:
    """Return logits as at_temperature does: capped in the model's precision, then at least float32, then divided."""
    logits = products if cap is None else torch.tanh(products / cap) * cap
    logits = logits if logits.dtype == torch.float64 else logits.float()
    return logits if temperature == 1.0 else logits / temperature


def _scores_of(
    products: Tensor, targets: Tensor, cap: float | None, temperature: float, entropy: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Return log-probabilities of the targets, log-sum-exps, and entropies (0 unless wanted), each [M]."""
    logits = _scaled(products, cap, temperature)
    normalizers = torch.logsumexp(logits, -1)
    logprobs = logits.gather(-1, targets.unsqueeze(-1)).squeeze(-1) - normalizers
    if not entropy:
        return logprobs, normalizers, torch.zeros_like(normalizers)
    own = logits - normalizers.unsqueeze(-1)
    return logprobs, normalizers, -(own.exp() * own).sum(-1)


def parted_scores_of(
    products: Tensor,
    targets: Tensor,
    cap: float | None,
    temperature: float,
    entropy: bool,
    *,
    group: distributed.ProcessGroup | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return what `_scores_of` does, from products [M, V / T] of T ranks; targets count from this rank's first token.

    Two reductions: the largest logit, then the sums of exponentials, target logits and what entropies need.
    """
    logits = _scaled(products, cap, temperature)
    largest = logits.amax(-1)
    distributed.all_reduce(largest, distributed.ReduceOp.MAX, group=group)
    own = logits - largest.unsqueeze(-1)
    weights, elsewhere = own.exp(), (targets < 0) | (targets >= products.shape[1])
    wanted = own.gather(-1, targets.masked_fill(elsewhere, 0).unsqueeze(-1)).squeeze(-1).masked_fill(elsewhere, 0.0)
    spread = torch.linalg.vecdot(weights, own) if entropy else torch.zeros_like(wanted)
    sums = torch.stack((weights.sum(-1), wanted, spread))
    distributed.all_reduce(sums, group=group)
    total, wanted, spread = sums
    log_total = total.log()
    return wanted - log_total, largest + log_total, (log_total - spread / total) * entropy


def _gradient_of(
    products: Tensor,
    targets: Tensor,
    normalizers: Tensor,
    entropies: Tensor,
    grad: Tensor,
    grad_entropy: Tensor,
    cap: float | None,
    temperature: float,
    entropy: bool,
) -> Tensor:
    """Return the gradient of products [M, V]: d log p(t) = onehot(t) - p, and dH = -p (log p + H)."""
    own = _scaled(products, cap, temperature) - normalizers.unsqueeze(-1)
    above = grad.unsqueeze(-1)
    factor = above + grad_entropy.unsqueeze(-1) * (own + entropies.unsqueeze(-1)) if entropy else above
    wanted = torch.arange(products.shape[1], device=products.device) == targets.unsqueeze(-1)
    out = (torch.where(wanted, above, 0.0) - own.exp() * factor) / temperature
    if cap is not None:
        out = out * (1 - torch.tanh(products / cap).to(out.dtype).square())
    return out.to(products.dtype)


scores_of, gradient_of = Compiled(_scores_of), Compiled(_gradient_of)
