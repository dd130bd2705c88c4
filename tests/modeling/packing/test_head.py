"""Scores straight from hidden states against log_softmax of the logits, values and gradients."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from components.modeling.native.attention.capped import cap
from components.modeling.packing import chunks, compiled, logprobs
from components.modeling.packing.head import Head, gradient_of, head_scores, scores_of
from tests.modeling.tracing import traced

VOCAB, WIDTH, POSITIONS = 13, 6, 9


def drawn(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    hidden, weight = (torch.randn(n, WIDTH, generator=generator, dtype=torch.float64) for n in (POSITIONS, VOCAB))
    hidden, weight = ((2 * tensor).to(dtype).requires_grad_() for tensor in (hidden, weight))
    return hidden, weight, torch.randint(0, VOCAB, (POSITIONS,), generator=generator)


@pytest.mark.parametrize("rows", [1, 4, 9])
@pytest.mark.parametrize("entropy", [False, True])
@pytest.mark.parametrize(("limit", "temperature"), [(None, 1.0), (None, 0.6), (3.0, 0.7)])
def test_values_and_gradients(rows: int, entropy: bool, limit: float | None, temperature: float) -> None:
    hidden, weight, targets = drawn()
    logits = hidden @ weight.t()
    own = torch.log_softmax((logits if limit is None else cap(logits, limit)) / temperature, -1)
    expected = own.gather(1, targets.unsqueeze(1)).squeeze(1), -(own.exp() * own).sum(-1) if entropy else None
    found = head_scores(Head(weight, limit), hidden, targets, temperature, entropy, rows)
    assert (found[1] is None) == (not entropy)
    results = []
    for scores in (expected, found):
        total = sum((part * torch.linspace(-1, 2, POSITIONS)).sum() for part in scores if part is not None)
        results.append(
            [part for part in scores if part is not None] + list(torch.autograd.grad(total, (hidden, weight)))
        )
    torch.testing.assert_close(results[1], results[0], atol=1e-12, rtol=1e-12)


def test_a_frozen_matrix_gets_no_gradient() -> None:
    hidden, weight, targets = drawn()
    weight.requires_grad_(False)
    head_scores(Head(weight), hidden, targets, 1.0, False, 4)[0].sum().backward()
    assert hidden.grad is not None and weight.grad is None


def test_low_precision_is_float32_from_the_product_on() -> None:
    """The same bits as scores of one chunk, whose order of operations scoring and sampling share."""
    hidden, weight, targets = drawn(torch.bfloat16)
    for limit, temperature in ((None, 0.6), (3.0, 1.0)):
        found, entropies = head_scores(Head(weight, limit), hidden, targets, temperature, True, 4)
        assert found.dtype == entropies.dtype == torch.float32

        def logits_of(rows: Tensor, limit: float | None = limit, weight: Tensor = weight) -> Tensor:
            return rows @ weight.t() if limit is None else cap(rows @ weight.t(), limit)

        one = logprobs.score_in_chunks(logits_of, hidden, targets, VOCAB, temperature, True)
        torch.testing.assert_close((found, entropies), (one.logprobs, one.entropies), atol=1e-6, rtol=1e-6)


def test_chunks_follow_free_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu, vocab = torch.device("cuda"), 151_936
    assert chunks.chunk_rows(vocab, torch.device("cpu")) == (1 << 25) // vocab == 220
    for free, rows in ((60 << 30, 1766), (8 << 30, 1177), (1 << 30, 220)):
        monkeypatch.setattr(chunks, "_free_bytes", lambda device, free=free: free)
        assert chunks.chunk_rows(vocab, gpu) == rows
    assert chunks.chunk_rows(1 << 30, gpu) == 1
    torch.use_deterministic_algorithms(True)
    try:
        monkeypatch.setattr(chunks, "_free_bytes", lambda device: 60 << 30)
        assert chunks.chunk_rows(vocab, gpu) == 220  # what is free differs from run to run
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("entropy", [False, True])
def test_its_chains_are_one_graph_of_any_length(entropy: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU, but for Triton: traced without breaks, once for all lengths."""
    monkeypatch.setattr(compiled, "is_worth_compiling", lambda tensor: True)
    graphs = traced(monkeypatch)
    for kernel in (scores_of, gradient_of):
        monkeypatch.setattr(kernel, "_kernel", None)
    for rows in (5, 4, 3):
        test_values_and_gradients(rows, entropy, 3.0, 0.7)
    assert len(graphs) <= 4
    assert not (scores_of._fails or gradient_of._fails)


def test_what_does_not_compile_runs_as_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "is_worth_compiling", lambda tensor: True)

    def broken(function: object, **how: object) -> object:
        def raises(*given: object) -> None:
            raise RuntimeError("no compiler\nat all")

        return raises

    monkeypatch.setattr(torch, "compile", broken)
    double = compiled.Compiled(lambda tensor, by: tensor * by)
    with pytest.warns(UserWarning, match=r"does not compile here \(RuntimeError: no compiler\): slower"):
        assert double(torch.ones(2), 2.0).tolist() == [2.0, 2.0]
    assert double(torch.ones(2), 3.0).tolist() == [3.0, 3.0]
