"""Log-probabilities and entropies of tokens, without a second copy of the vocabulary's log-probabilities.

Shapes: M positions, V vocabulary, D model width.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from components.modeling.packing.chunks import chunk_rows
from components.modeling.packing.head import Head, head_scores

LOW_PRECISION = (torch.bfloat16, torch.float16)
LogitsOf = Callable[[Tensor], Tensor]


class TokenScores(NamedTuple):
    """A policy's log-probabilities of given tokens, with entropies if wanted."""

    logprobs: Tensor
    """[M] log-probability of each target."""
    entropies: Tensor | None
    """[M] entropy of each position's distribution in nats, when asked for."""
    hidden: Tensor | None = None
    """[M, D] the hidden states behind the logits, differentiable."""
    logits_of: LogitsOf | None = None
    """From hidden states [M', D] to logits [M', V] at the temperature of `logprobs`."""
    after: Tensor | None = None
    """[S] log-probability, at temperature 1, of a further token behind each sequence, when asked for."""

    def logits_at(self, rows: Tensor) -> Tensor:
        """Return logits [M', V] of the positions `rows` [M'] alone, differentiable; no others are computed."""
        assert self.hidden is not None and self.logits_of is not None
        return self.logits_of(self.hidden[rows])


class _TokenLogprobs(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor) -> Tensor:
        normalizer = torch.logsumexp(logits, -1)
        ctx.save_for_backward(logits, targets, normalizer)
        return logits.gather(-1, targets.unsqueeze(-1)).squeeze(-1) - normalizer

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        logits, targets, normalizer = ctx.saved_tensors
        grad = grads[0].unsqueeze(-1)
        # d log p(target) / d logits = onehot(target) - p
        out = (logits - normalizer.unsqueeze(-1)).exp_().mul_(-grad)
        return out.scatter_add_(-1, targets.unsqueeze(-1), grad), None


class _TokenScores(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        logprobs = torch.log_softmax(logits, -1)
        entropies = torch.linalg.vecdot(logprobs.exp(), logprobs).neg_()
        ctx.save_for_backward(logprobs, targets, entropies)
        return logprobs.gather(-1, targets.unsqueeze(-1)).squeeze(-1), entropies

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        logprobs, targets, entropies = ctx.saved_tensors
        grad, grad_entropy = (g.unsqueeze(-1) for g in grads)
        # d log p(target) = onehot - p ;  dH / d logits = -p * (log p + H)
        out = (logprobs + entropies.unsqueeze(-1)).mul_(grad_entropy).add_(grad).mul_(logprobs.exp()).neg_()
        return out.scatter_add_(-1, targets.unsqueeze(-1), grad), None


def token_logprobs(logits: Tensor, targets: Tensor) -> Tensor:
    """Return [M] log-probabilities of `targets` [M] under `logits` [M, V], differentiable."""
    return _TokenLogprobs.apply(logits, targets)


def token_entropy(logits: Tensor) -> Tensor:
    """Return [M] entropies in nats of `logits` [M, V], differentiable."""
    first = torch.zeros(logits.shape[0], dtype=torch.long, device=logits.device)
    return _TokenScores.apply(logits, first)[1]


def token_scores(logits: Tensor, targets: Tensor) -> TokenScores:
    """Return log-probabilities of `targets` [M] and entropies from one softmax of `logits` [M, V]."""
    return TokenScores(*_TokenScores.apply(logits, targets))


def at_temperature(logits_of: LogitsOf, temperature: float) -> LogitsOf:
    """Return a map from hidden states [M, D] to logits [M, V] that are divided by a temperature, at least float32.

    Training, scoring and decoding keep one order: to float32, divide, log-softmax. Dividing in bfloat16 first would
    round each logit once more, and change log-probabilities by .02 on average at temperature 0.6.
    """

    def scaled(hidden: Tensor) -> Tensor:
        logits = at_least_float32(logits_of(hidden))
        return logits if temperature == 1.0 else logits / temperature

    return scaled


def at_least_float32(logits: Tensor) -> Tensor:
    """Return logits in float32, or in float64 if they are."""
    return logits.float() if logits.dtype in LOW_PRECISION else logits


def score_in_chunks(
    logits_of: LogitsOf,
    hidden: Tensor,
    targets: Tensor,
    vocab_size: int,
    temperature: float,
    entropy: bool,
    head: Head | None = None,
) -> TokenScores:
    """Score targets [M] from hidden [M, D], holding the logits of one chunk at a time (`chunk_rows`).

    One chunk keeps its logits for the backward pass; several recompute theirs, so memory stays bounded. `head` says
    what `logits_of` is made of, if it is one matrix product: on a GPU several chunks then need less of autograd.
    """
    scaled = at_temperature(logits_of, temperature)
    size = chunk_rows(vocab_size, hidden.device)
    # On a CPU products take nearly all the time, and autograd's way is 4 % faster.
    if head is not None and (head.ranks.count > 1 or (targets.shape[0] > size and hidden.device.type != "cpu")):
        logprobs, entropies = head_scores(head, hidden, targets, temperature, entropy, size * head.ranks.count)
        return TokenScores(logprobs, entropies, hidden=hidden, logits_of=scaled)

    def score(part: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor | None]:
        logits = scaled(part)
        scores = token_scores(logits, wanted) if entropy else TokenScores(token_logprobs(logits, wanted), None)
        return scores.logprobs, scores.entropies

    if targets.shape[0] <= size:
        parts = [score(hidden, targets)]
    else:
        pairs = zip(hidden.split(size), targets.split(size), strict=True)
        parts = [checkpoint(score, part, wanted, use_reentrant=False) for part, wanted in pairs]
    own, spread = zip(*parts, strict=True)
    return TokenScores(torch.cat(own), torch.cat(spread) if entropy else None, hidden=hidden, logits_of=scaled)


def mean_logprobs(logits: Tensor) -> Tensor:
    """Return [M]: the mean over the vocabulary of the log-probabilities of `logits` [M, V]."""
    return logits.mean(-1) - torch.logsumexp(logits, -1)
