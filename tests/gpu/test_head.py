"""Log-probabilities and entropies over a vocabulary of 152 thousand: exact enough, and bounded in memory."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from components.modeling.packing.head import Head
from components.modeling.packing.logprobs import score_in_chunks
from tests.gpu.device import DEVICE, free_memory, gpu_only, peak_memory, sized
from tests.gpu.models import QWEN_VOCABULARY

pytestmark = pytest.mark.gpu

ROWS, WIDTH = sized(2048, 24), sized(1536, 16)
BOUNDS = {"float32": (5e-5, 1e-4), "bfloat16": (4e-2, 3e-2)}
"""Largest error of a log-probability or an entropy in nats, and relative error of gradients."""


def head(dtype: str, rows: int = ROWS) -> tuple[Tensor, Tensor, Tensor]:
    """Return hidden states [rows, WIDTH], the head [V, WIDTH] and targets [rows]; logits are of size 1 to 10."""
    generator = torch.Generator(DEVICE).manual_seed(0)
    hidden = torch.randn(rows, WIDTH, generator=generator, device=DEVICE)
    weight = torch.randn(QWEN_VOCABULARY, WIDTH, generator=generator, device=DEVICE) * (3 / WIDTH**0.5)
    targets = torch.randint(QWEN_VOCABULARY, (rows,), generator=generator, device=DEVICE)
    kept = (tensor.to(getattr(torch, dtype)).requires_grad_() for tensor in (hidden, weight))
    return *kept, targets


@pytest.mark.parametrize("temperature", [1.0, 0.6])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_scores_and_gradients_against_float64(dtype: str, temperature: float) -> None:
    """Against log_softmax of the same, already rounded inputs, in float64 and in pieces."""
    free_memory()
    hidden, weight, targets = head(dtype)
    scores = score_in_chunks(
        lambda h: h @ weight.t(), hidden, targets, QWEN_VOCABULARY, temperature, True, Head(weight)
    )
    assert scores.entropies is not None and scores.logprobs.dtype == torch.float32
    (scores.logprobs.sum() / ROWS + 0.1 * scores.entropies.sum() / ROWS).backward()
    exact_hidden, exact_weight = (t.detach().double().requires_grad_() for t in (hidden, weight))
    logprobs, entropies = [], []
    for rows, wanted in zip(exact_hidden.split(64), targets.split(64), strict=True):
        plain = torch.log_softmax(rows @ exact_weight.t() / temperature, -1)
        found = plain.gather(-1, wanted.unsqueeze(-1)).squeeze(-1), -(plain.exp() * plain).sum(-1)
        (found[0].sum() / ROWS + 0.1 * found[1].sum() / ROWS).backward()
        logprobs.append(found[0].detach())
        entropies.append(found[1].detach())
    largest, relative = BOUNDS[dtype]
    for found, exact in ((scores.logprobs, logprobs), (scores.entropies, entropies)):
        assert float((found.detach().double() - torch.cat(exact)).abs().max()) <= largest / temperature
    for mine, exact_one in ((hidden, exact_hidden), (weight, exact_weight)):
        assert mine.grad is not None and exact_one.grad is not None
        assert float((mine.grad.double() - exact_one.grad).norm() / exact_one.grad.norm()) <= relative


@gpu_only("a count of the memory that tensors take")
def test_memory_does_not_grow_with_the_rows() -> None:
    """16 thousand rows would have 9.3 GiB of float32 logits, and several times that with their gradient."""
    peaks = []
    for rows in (4096, 16384):
        hidden, weight, targets = head("bfloat16", rows)
        free_memory()
        before = torch.cuda.memory_allocated()
        scores = score_in_chunks(
            lambda h, w=weight: h @ w.t(), hidden, targets, QWEN_VOCABULARY, 1.0, True, Head(weight)
        )
        scores.logprobs.sum().backward()
        own = sum(t.grad.nbytes for t in (hidden, weight) if t.grad is not None)
        peaks.append(peak_memory() - before - own)
        del hidden, weight, targets, scores
    assert max(peaks) < 6 << 30
    assert peaks[1] < 2.5 * peaks[0]
