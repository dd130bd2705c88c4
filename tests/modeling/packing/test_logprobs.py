"""Token log-probabilities and entropies against log_softmax."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from components.modeling.packing import chunks, logprobs


def _logits(*shape: int) -> Tensor:
    drawn = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return (3 * drawn).requires_grad_()


def test_by_hand() -> None:
    logits = torch.tensor([[0.0, math.log(3.0)], [0.0, 0.0]])
    scores = logprobs.token_scores(logits, torch.tensor([1, 0]))
    torch.testing.assert_close(scores.logprobs, torch.tensor([math.log(0.75), math.log(0.5)]))
    expected = -0.75 * math.log(0.75) - 0.25 * math.log(0.25)
    torch.testing.assert_close(scores.entropies, torch.tensor([expected, math.log(2)]))


def test_values_and_gradients_equal_autograd_of_log_softmax() -> None:
    logits, targets = _logits(7, 11), torch.arange(7)
    plain = torch.log_softmax(logits, -1)
    chosen, entropies = plain[range(7), range(7)], -(plain.exp() * plain).sum(-1)
    scores = logprobs.token_scores(logits, targets)
    torch.testing.assert_close(scores.logprobs, chosen)
    torch.testing.assert_close(scores.entropies, entropies)
    torch.testing.assert_close(logprobs.token_logprobs(logits, targets), chosen)
    torch.testing.assert_close(logprobs.token_entropy(logits), entropies)
    assert torch.autograd.gradcheck(lambda x: logprobs.token_scores(x, targets)[:2], (logits,))
    assert torch.autograd.gradcheck(lambda x: logprobs.token_logprobs(x, targets), (logits,))
    assert torch.autograd.gradcheck(logprobs.token_entropy, (logits,))


def test_extreme_logits_stay_finite() -> None:
    logits = torch.tensor([[1e4, 0.0, -1e4]], requires_grad=True)
    scores = logprobs.token_scores(logits, torch.tensor([1]))
    (scores.logprobs.sum() + scores.entropies.sum()).backward()
    assert scores.logprobs.item() == -1e4
    assert scores.entropies.item() == 0.0
    assert torch.isfinite(logits.grad).all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_low_precision_logits_become_float32_before_the_temperature(dtype: torch.dtype) -> None:
    """Dividing first would round every logit once more: off by up to half a step of the dtype."""
    logits, targets = (10 * _logits(50, 300)).detach().to(dtype), torch.arange(50)
    exact = torch.log_softmax(logits.double() / 0.6, -1)
    scores = logprobs.score_in_chunks(lambda rows: rows, logits, targets, 300, 0.6, True)
    assert scores.logprobs.dtype == torch.float32
    torch.testing.assert_close(scores.logprobs.double(), exact[range(50), range(50)], atol=1e-4, rtol=1e-5)
    torch.testing.assert_close(scores.entropies.double(), -(exact.exp() * exact).sum(-1), atol=1e-4, rtol=1e-5)
    rounded_twice = torch.log_softmax((logits / 0.6).double(), -1)
    assert float((rounded_twice - exact).abs().mean()) > 1e-3


@pytest.mark.parametrize("entropy", [False, True])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_chunks_change_nothing(entropy: bool, temperature: float, monkeypatch: pytest.MonkeyPatch) -> None:
    weight = _logits(5, 4)
    targets = torch.arange(9) % 5
    results = []
    for elements in (1 << 25, 10):
        monkeypatch.setattr(chunks, "CHUNK_ELEMENTS", elements)
        hidden = _logits(9, 4)
        scores = logprobs.score_in_chunks(lambda h: h @ weight.t(), hidden, targets, 5, temperature, entropy)
        assert (scores.entropies is not None) == entropy
        total = scores.logprobs.sum() + (scores.entropies.sum() if entropy else 0.0)
        grads = torch.autograd.grad(total, (hidden, weight))
        results.append((scores.logprobs, *grads))
    for one, many in zip(*results, strict=True):
        torch.testing.assert_close(one, many)
