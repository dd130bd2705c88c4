from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import kl_div, softmax

from components.modeling.supervised.divergence import teacher_divergence


def logs(*shares: float) -> Tensor:
    return torch.tensor([shares], dtype=torch.float64).log() + 0.7  # a constant changes no distribution


def test_it_is_what_one_works_out_by_hand() -> None:
    even, three_to_one = logs(0.5, 0.5), logs(0.75, 0.25)
    assert teacher_divergence(even, three_to_one).item() == pytest.approx(0.75 * math.log(1.5) + 0.25 * math.log(0.5))
    student, teacher = logs(0.25, 0.5, 0.25), logs(0.5, 0.25, 0.25)
    assert teacher_divergence(student, teacher).item() == pytest.approx(0.25 * math.log(2))
    likeliest = 0.5 * math.log(0.5 / 0.25) + 0.5 * math.log(0.5 / 0.75)
    assert teacher_divergence(student, teacher, top_k=1).item() == pytest.approx(likeliest)


def test_the_square_of_the_temperature_keeps_the_size_of_gradients() -> None:
    """Between soft distributions the gradient is that of half the squared distance of centred logits, divided by V."""
    student, teacher = torch.randn(2, 5, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    student.requires_grad_(True)
    teacher_divergence(student, teacher, temperature=1e4).sum().backward()
    centred = (student - student.mean(-1, keepdim=True) - teacher + teacher.mean(-1, keepdim=True)).detach()
    torch.testing.assert_close(student.grad, centred / 7, rtol=1e-3, atol=1e-6)


def reference(student: Tensor, teacher: Tensor, temperature: float, top_k: int | None) -> Tensor:
    """By torch.nn.functional.kl_div, position by position, with others summed as probabilities."""
    found = []
    for own, other in zip(student.double(), teacher.double(), strict=True):
        p, q = softmax(other / temperature, -1), softmax(own / temperature, -1)
        if top_k is not None and top_k < p.numel():
            order = p.argsort(descending=True)
            p, q = (torch.cat([x[order[:top_k]], x[order[top_k:]].sum().view(1)]) for x in (p, q))
        found.append(kl_div(q.log(), p, reduction="sum") * temperature**2)
    return torch.stack(found)


@given(
    seed=st.integers(0, 10**6),
    positions=st.integers(1, 5),
    width=st.integers(2, 12),
    temperature=st.sampled_from([0.5, 1.0, 2.0]),
    top_k=st.one_of(st.none(), st.integers(1, 14)),
)
def test_value_and_gradient_are_those_of_kl_div_in_float64(
    seed: int, positions: int, width: int, temperature: float, top_k: int | None
) -> None:
    drawn = torch.randn(2, positions, width, generator=torch.Generator().manual_seed(seed)) * 3
    student, teacher = drawn[0].requires_grad_(True), drawn[1]
    found = teacher_divergence(student, teacher, temperature=temperature, top_k=top_k)
    exact = student.detach().double().requires_grad_(True)
    expected = reference(exact, teacher, temperature, top_k)
    torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=1e-5)
    found.sum().backward()
    expected.sum().backward()
    torch.testing.assert_close(student.grad.double(), exact.grad, rtol=1e-3, atol=1e-5)
    whole = teacher_divergence(student, teacher, temperature=temperature)
    assert (found <= whole + 1e-5).all() and (found >= -1e-5).all(), "what is summed tells less apart"


@given(seed=st.integers(0, 10**6), top_k=st.one_of(st.none(), st.integers(1, 5)))
def test_padding_of_either_vocabulary_has_no_probability_in_the_teacher(seed: int, top_k: int | None) -> None:
    logits = torch.randn(2, 3, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    student, teacher = logits
    padded = torch.cat([teacher, torch.full((3, 2), 9.0, dtype=torch.float64)], -1)
    same = teacher_divergence(student, teacher, top_k=top_k)
    torch.testing.assert_close(teacher_divergence(student, padded, top_k=top_k), same)
    wide = torch.cat([student, torch.zeros(3, 2, dtype=torch.float64)], -1)
    unknown = torch.cat([teacher, torch.full((3, 2), -1e9, dtype=torch.float64)], -1)
    torch.testing.assert_close(
        teacher_divergence(wide, teacher, top_k=top_k), teacher_divergence(wide, unknown, top_k=top_k)
    )


def test_it_is_zero_where_both_agree() -> None:
    logits = torch.randn(4, 9, generator=torch.Generator().manual_seed(1))
    for top_k in (None, 1, 4):
        student = logits.clone().requires_grad_(True)
        found = teacher_divergence(student, logits + 3, top_k=top_k)
        found.sum().backward()
        assert found.abs().max() < 1e-6 and student.grad.abs().max() < 1e-6
