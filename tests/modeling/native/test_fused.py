"""Norm, rotary positions and gates for CUDA: the operators of a CPU, with their gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor

from components.modeling.native import fused, ops
from components.modeling.packing import compiled
from tests.modeling.tracing import traced

ROWS, WIDTH, HEADS = 7, 12, 3
ANGLES = torch.rand(ROWS, 1, WIDTH // 2, generator=torch.Generator().manual_seed(1))
TURNS = torch.polar(torch.ones_like(ANGLES), ANGLES)


def drawn(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0), requires_grad=True)


CASES: dict[str, tuple[Callable[..., Tensor], list[Tensor]]] = {
    "norm": (lambda x, gain: ops.rms_norm(x, gain, 1e-6), [drawn(ROWS, WIDTH), drawn(WIDTH)]),
    "norm of heads": (lambda x, gain: ops.rms_norm(x, gain, 1e-6), [drawn(ROWS, HEADS, WIDTH), drawn(WIDTH)]),
    "Gemma's norm": (lambda x, gain: ops.rms_norm_from_one(x, gain, 1e-6), [drawn(ROWS, WIDTH), drawn(WIDTH)]),
    "swiglu": (ops.swiglu, [drawn(ROWS, 2 * WIDTH)]),
    "geglu": (ops.geglu, [drawn(ROWS, 2 * WIDTH)]),
    "rotate": (lambda x: ops.rotate(x * 1.0, TURNS, 2, WIDTH), [drawn(ROWS, HEADS * WIDTH)]),
}


def results(case: str) -> list[Tensor]:
    function, inputs = CASES[case]
    out = function(*inputs)
    weights = torch.linspace(-1, 2, out.numel()).view_as(out)
    return [out.detach(), *torch.autograd.grad((out * weights).sum(), inputs)]


@pytest.fixture
def as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The operators for CUDA, as they are written."""
    monkeypatch.setattr(ops, "is_worth_compiling", lambda tensor: True)
    yield


@pytest.mark.parametrize("case", CASES)
def test_the_same_values_and_gradients(case: str, as_on_a_gpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = results(case)
    monkeypatch.undo()
    torch.testing.assert_close(ours, results(case), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("case", CASES)
def test_compiled_they_are_one_graph_of_any_length(
    case: str, as_on_a_gpu: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = results(case)
    graphs = traced(monkeypatch)
    monkeypatch.setattr(compiled, "is_worth_compiling", lambda tensor: True)
    kernels = [fused.norm, fused.norm_backward, fused.turn, *(one for pair in fused.GATES.values() for one in pair)]
    for kernel in kernels:
        monkeypatch.setattr(kernel, "_kernel", None)
    torch.testing.assert_close(results(case), expected, atol=1e-6, rtol=1e-6)
    assert graphs
    assert not any(kernel._fails for kernel in kernels)


def test_nothing_is_compiled_on_a_cpu() -> None:
    assert not compiled.is_worth_compiling(torch.empty(1 << 21))
