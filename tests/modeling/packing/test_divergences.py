"""Divergences and their gradients: by hand, by autograd over the formula, by TRL's loss; top k; what stays finite."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from components.modeling.packing.divergences import Kind, generalised_divergence

KINDS = get_args(Kind)
P, Q = [0.5, 0.5], [0.25, 0.75]


def drawn(seed: int, *shape: int, scale: float = 2.0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * scale


def by_formula(p: Tensor, q: Tensor, kind: Kind, beta: float) -> Tensor:
    """Return [M] from probabilities [M, W], term by term as the paper writes it."""
    if kind == "forward_kl":
        return (p * (p / q).log()).sum(-1)
    if kind == "reverse_kl":
        return (q * (q / p).log()).sum(-1)
    mixed = beta * p + (1 - beta) * q
    return beta * (p * (p / mixed).log()).sum(-1) + (1 - beta) * (q * (q / mixed).log()).sum(-1)


def bucketed(probabilities: Tensor, chosen: Tensor) -> Tensor:
    """Return [M, k + 1] probabilities of the chosen tokens and of all others together."""
    few = probabilities.gather(-1, chosen)
    return torch.cat([few, 1 - few.sum(-1, keepdim=True)], -1)


@pytest.mark.parametrize(
    ("kind", "beta", "expected"),
    [
        ("forward_kl", 0.5, 0.5 * math.log(2) + 0.5 * math.log(2 / 3)),
        ("reverse_kl", 0.5, 0.25 * math.log(1 / 2) + 0.75 * math.log(3 / 2)),
        # R = (3/8, 5/8)
        ("jsd", 0.5, 0.25 * (math.log(4 / 3) + math.log(4 / 5)) + 0.125 * math.log(2 / 3) + 0.375 * math.log(6 / 5)),
        # R = (0.3, 0.7)
        ("jsd", 0.2, 0.1 * math.log(25 / 21) + 0.2 * math.log(5 / 6) + 0.6 * math.log(15 / 14)),
    ],
)  # fmt: skip
def test_two_tokens_by_hand(kind: Kind, beta: float, expected: float) -> None:
    student, teacher = torch.tensor([Q]).log(), torch.tensor([P]).log()
    found = generalised_divergence(student, teacher, kind=kind, beta=beta)
    assert found.item() == pytest.approx(expected, abs=1e-7)


@given(
    seed=st.integers(0, 10**6),
    kind=st.sampled_from(KINDS),
    beta=st.floats(0.02, 0.98),
    width=st.integers(2, 9),
    top_k=st.one_of(st.none(), st.integers(1, 10)),
)
@settings(max_examples=80, deadline=None)
def test_value_and_gradient_are_those_of_the_formula_by_autograd(
    seed: int, kind: Kind, beta: float, width: int, top_k: int | None
) -> None:
    student, teacher, weights = drawn(seed, 4, width).requires_grad_(), drawn(seed + 1, 4, width), drawn(seed + 2, 4)
    p, q = (torch.softmax(logits, -1) for logits in (teacher, student))
    if top_k is not None and top_k < width:
        chosen = p.topk(top_k, -1).indices
        p, q = bucketed(p, chosen), bucketed(q, chosen)
    expected = by_formula(p, q, kind, beta)
    found = generalised_divergence(student, teacher, kind=kind, beta=beta, top_k=top_k)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-11)
    ours, theirs = (torch.autograd.grad((value * weights).sum(), student)[0] for value in (found, expected))
    torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize(("kind", "beta", "theirs"), [("forward_kl", 0.5, 0), ("reverse_kl", 0.5, 1)]
                         + [("jsd", beta, beta) for beta in (0.1, 0.5, 0.9)])  # fmt: skip
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_value_and_gradient_are_those_of_trl(kind: Kind, beta: float, theirs: float, temperature: float) -> None:
    trainer = pytest.importorskip("trl.experimental.gkd.gkd_trainer").GKDTrainer
    student, teacher = drawn(1, 2, 5, 7).requires_grad_(), drawn(2, 2, 5, 7)
    expected = trainer.generalized_jsd_loss(student, teacher, beta=theirs, temperature=temperature, reduction="sum")
    flat = student.reshape(-1, 7) / temperature
    found = generalised_divergence(flat, teacher.reshape(-1, 7) / temperature, kind=kind, beta=beta).sum()
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(*(torch.autograd.grad(value, student)[0] for value in (found, expected)))


def test_the_mixture_goes_to_either_divergence() -> None:
    student, teacher = drawn(3, 6, 8), drawn(4, 6, 8)
    ends: tuple[tuple[Kind, float], ...] = (("forward_kl", 1e-6), ("reverse_kl", 1 - 1e-6))
    for kind, beta in ends:
        mixed = generalised_divergence(student, teacher, kind="jsd", beta=beta) / 1e-6
        torch.testing.assert_close(mixed, generalised_divergence(student, teacher, kind=kind), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_top_k_is_a_lower_bound_that_grows_to_the_whole(kind: Kind) -> None:
    student, teacher = drawn(5, 20, 12), drawn(6, 20, 12)
    found = [generalised_divergence(student, teacher, kind=kind, top_k=k) for k in (1, 3, 6, 11, 12)]
    assert all((later >= earlier - 1e-12).all() for earlier, later in pairwise(found))
    whole = generalised_divergence(student, teacher, kind=kind)
    assert torch.equal(found[-1], whole) and (found[0] < whole).all()


@pytest.mark.parametrize("kind", KINDS)
def test_a_student_that_is_its_teacher_has_no_divergence_and_no_gradient(kind: Kind) -> None:
    student = drawn(7, 3, 6).requires_grad_()
    for top_k in (None, 2):
        found = generalised_divergence(student, student.detach(), kind=kind, top_k=top_k)
        (slope,) = torch.autograd.grad(found.sum(), student)
        assert found.abs().max() < 1e-12 and slope.abs().max() < 1e-12


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("own", "other"), [(9, 7), (7, 9)])
def test_ids_that_one_of_them_lacks_are_left_out(kind: Kind, own: int, other: int) -> None:
    student, teacher = drawn(8, 3, own).requires_grad_(), drawn(9, 3, other)
    found = generalised_divergence(student, teacher, kind=kind)
    torch.testing.assert_close(found, generalised_divergence(student[:, :7], teacher[:, :7], kind=kind))
    (slope,) = torch.autograd.grad(found.sum(), student)
    assert slope.shape == student.shape and not slope[:, 7:].any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("top_k", [None, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_far_logits_stay_finite(kind: Kind, top_k: int | None, dtype: torch.dtype) -> None:
    student = torch.tensor([[300.0, 0.0, -300.0, 1.0], [-300.0, 300.0, 0.0, 2.0]], dtype=dtype).requires_grad_()
    teacher = torch.tensor([[-300.0, 0.0, 300.0, 3.0], [-300.0, 300.0, 0.0, 2.0]], dtype=dtype)
    found = generalised_divergence(student, teacher, kind=kind, top_k=top_k)
    (slope,) = torch.autograd.grad(found.sum(), student)
    assert found.isfinite().all() and slope.isfinite().all() and (found >= -1e-6).all()
    assert found[0] > 0.1 and found[1].abs() < 1e-6


@pytest.mark.parametrize("kind", ["forward_kl", "jsd"])
def test_tokens_that_the_teacher_forbids_have_no_part_in_its_sums(kind: Kind) -> None:
    student = drawn(10, 2, 4).requires_grad_()
    teacher = drawn(11, 2, 4)
    teacher[:, 3] = -math.inf
    p, q = torch.softmax(teacher, -1), torch.softmax(student, -1)
    found = generalised_divergence(student, teacher, kind=kind)
    few = (p[:, :3] * (p[:, :3] / q[:, :3]).log()).sum(-1)
    if kind == "jsd":
        mixed = (p + q) / 2
        few = (p[:, :3] * (p[:, :3] / mixed[:, :3]).log()).sum(-1) / 2 + (q * (q / mixed).log()).sum(-1) / 2
    torch.testing.assert_close(found, few)
    torch.testing.assert_close(*(torch.autograd.grad(value.sum(), student)[0] for value in (found, few)))
