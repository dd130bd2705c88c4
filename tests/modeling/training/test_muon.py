from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from components.modeling.training.muon import Muon, orthogonalize, step_scale


def matrix(rows: int, columns: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed))


def polar_factor(tensor: torch.Tensor) -> np.ndarray:
    """U V^T of the singular value decomposition: the exact orthogonalisation."""
    u, _, vt = np.linalg.svd(tensor.double().numpy(), full_matrices=False)
    return u @ vt


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float((a * b).sum() / np.linalg.norm(a) / np.linalg.norm(b))


@pytest.mark.parametrize("shape", [(16, 16), (48, 16), (16, 48), (1, 8)])
def test_orthogonalize_keeps_singular_vectors_and_moves_singular_values_to_about_one(shape) -> None:
    given = matrix(*shape)
    result = orthogonalize(given.unsqueeze(0)).squeeze(0).double().numpy()
    u, _, vt = np.linalg.svd(given.double().numpy(), full_matrices=False)
    core = u.T @ result @ vt.T
    values = np.diag(core)
    assert np.abs(core - np.diag(values)).max() < 1e-4  # the same singular vectors
    assert values.min() > 0.6  # the band of the quintic
    assert values.max() < 1.3
    assert cosine(result, polar_factor(given)) > 0.97


def test_a_batch_is_orthogonalised_matrix_by_matrix() -> None:
    stack = torch.stack([matrix(8, 12, seed) for seed in range(3)])
    alone = torch.cat([orthogonalize(one.unsqueeze(0)) for one in stack])
    torch.testing.assert_close(orthogonalize(stack), alone)


def test_a_zero_gradient_moves_nothing() -> None:
    assert torch.equal(orthogonalize(torch.zeros(1, 4, 6)), torch.zeros(1, 4, 6))


def test_step_scales() -> None:
    assert step_scale(64, 16, "match_rms_adamw") == pytest.approx(1.6)
    assert step_scale(64, 16, "original") == pytest.approx(2.0)
    assert step_scale(16, 64, "original") == pytest.approx(1.0)


@pytest.mark.parametrize("scale", ["match_rms_adamw", "original"])
def test_ten_steps_agree_with_torchs_muon(scale: str) -> None:
    shapes = [(16, 16), (48, 16), (16, 48)]
    ours = [torch.nn.Parameter(matrix(*shape)) for shape in shapes]
    theirs = [torch.nn.Parameter(p.detach().clone()) for p in ours]
    settings = {"lr": 0.02, "momentum": 0.9, "weight_decay": 0.1}
    mine = Muon(ours, scale=scale, **settings)
    reference = torch.optim.Muon(theirs, adjust_lr_fn=scale, **settings)
    for step in range(10):
        for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            a.grad = matrix(*a.shape, seed=100 * step + i)
            b.grad = a.grad.clone()
        mine.step()
        reference.step()
    for a, b, shape in zip(ours, theirs, shapes, strict=True):
        moved = (b - matrix(*shape)).norm()
        assert (a - b).norm() / moved < 0.02  # torch iterates in bfloat16


def test_fused_matrices_are_orthogonalised_one_by_one() -> None:
    fused = torch.nn.Parameter(torch.cat([matrix(8, 8, seed) for seed in range(3)]))
    parts = [torch.nn.Parameter(part.clone()) for part in fused.detach().split(8)]
    gradient = torch.cat([matrix(8, 8, seed) * 10**seed for seed in range(3)])
    fused.grad = gradient.clone()
    for part, piece in zip(parts, gradient.split(8), strict=True):
        part.grad = piece.clone()
    Muon([fused], lr=0.1, row_blocks={fused: (8, 8, 8)}).step()
    Muon(parts, lr=0.1).step()
    torch.testing.assert_close(fused.detach(), torch.cat([p.detach() for p in parts]))


def test_first_step_goes_against_the_orthogonalised_gradient() -> None:
    parameter = torch.nn.Parameter(torch.zeros(6, 10))
    parameter.grad = matrix(6, 10)
    Muon([parameter], lr=0.5, momentum=0.9).step()
    step = -parameter.detach().double().numpy() / (0.5 * 0.2 * math.sqrt(10))
    assert cosine(step, polar_factor(parameter.grad)) > 0.97
    assert 0.6 < np.linalg.norm(step) / math.sqrt(6) < 1.3


def test_only_matrices_are_taken_and_blocks_must_add_up() -> None:
    with pytest.raises(ValueError, match="matrices only"):
        Muon([torch.nn.Parameter(torch.zeros(3))], lr=0.1)
    parameter = torch.nn.Parameter(torch.zeros(4, 2))
    with pytest.raises(ValueError, match="do not add up to 4 rows"):
        Muon([parameter], lr=0.1, row_blocks={parameter: (2, 1)})
