"""On-policy distillation: loss and gradient against rows computed alone, however they are cut; teachers; refusals."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import kl_div, log_softmax

from components.contract.errors import InputError
from components.contract.job import Resources
from components.modeling.loading.load import load_policy, new_policy
from components.modeling.models.model_config import ModelConfig
from components.modeling.models.model_sizes import ModelSizes
from components.modeling.models.policy import Policy
from components.modeling.packing.packed import Packed
from components.modeling.serving.local import LocalModel
from components.rl.batch.batch import FOREIGN, POLICY, Batch
from components.rl.component import COMPONENT
from components.rl.operators.objectives.distill import DistillConfig
from components.rl.params import RLParams
from components.rl.step import teaching
from components.rl.step.scoring import score_tokens
from components.rl.teacher_memory import rl_further_needs
from tests.rl.build import batch_of, context, operator, prompt

torch.set_num_threads(1)

WIDTH = 11
LENGTHS = [[3, 1], [4], [2, 5, 1]]


def made(seed: int, **sizes: Any) -> Policy:
    given = {"vocab_size": WIDTH, "width": 16, "layers": 1, "heads": 2, "mlp_width": 24} | sizes
    return new_policy(ModelConfig(**given), tokenizer=None, seed=seed, dtype="float64")


STUDENT = made(0)
TEACHER = made(1, width=24, layers=2)
OTHER = made(2, width=8)


class Given(LocalModel):
    """A further model whose weights are there."""

    def __init__(self, policy: Policy, name: str = "big.model") -> None:
        self.name, self.given = name, policy

    @property
    def policy(self) -> Policy:
        return self.given


def taught(*policies: Policy, **changes: Any) -> Any:
    return context(further={"teachers": [Given(policy) for policy in policies]}, **changes)


def alone(policy: Policy, batch: Batch) -> list[Tensor]:
    """Return for each row the logits [T, V] that predict its own tokens, computed without the others."""
    rows = []
    for before, row in zip(batch.contexts, batch.tokens.split(batch.lengths.tolist()), strict=True):
        packed = Packed.from_sequences([[*before, *row.tolist()]])
        rows.append(policy.logits(policy.hidden(packed))[-len(row) :])
    return rows


def by_rows(batch: Batch, teacher: Policy, kind: str, beta: float, temperature: float) -> Tensor:
    """Return [N] by torch.nn.functional, over the whole vocabulary, row by row."""
    found = []
    for own, other in zip(alone(STUDENT, batch), alone(teacher, batch), strict=True):
        q, p = log_softmax(own / temperature, -1), log_softmax(other.detach() / temperature, -1)
        if kind == "forward_kl":
            found.append(kl_div(q, p, reduction="none", log_target=True).sum(-1))
        elif kind == "reverse_kl":
            found.append(kl_div(p, q, reduction="none", log_target=True).sum(-1))
        else:
            mixed = (beta * p.exp() + (1 - beta) * q.exp()).log()
            parts = [kl_div(mixed, one, reduction="none", log_target=True).sum(-1) for one in (p, q)]
            found.append(beta * parts[0] + (1 - beta) * parts[1])
    return torch.cat(found)


def gradients(loss: Tensor) -> list[Tensor]:
    return list(torch.autograd.grad(loss, [weight for _, weight in STUDENT.trainable()], allow_unused=True))


@given(
    kind=st.sampled_from(["reverse_kl", "forward_kl", "jsd"]),
    beta=st.sampled_from([0.1, 0.5, 0.9]),
    drawn_at=st.sampled_from([1.0, 0.6]),
    temperature=st.sampled_from([None, 1.0, 2.0]),
    rows=st.sampled_from([1, 3, 10_000]),
    seed=st.integers(0, 99),
)
@settings(max_examples=30, deadline=None)
def test_loss_and_gradient_are_those_of_rows_alone_over_the_whole_vocabulary(
    kind: str, beta: float, drawn_at: float, temperature: float | None, rows: int, seed: int
) -> None:
    """However the logits are cut into chunks, and whatever temperature the policy drew at."""
    batch = batch_of([[0.0] * len(group) for group in LENGTHS], LENGTHS, seed=seed)
    config = {"divergence": kind, "temperature": temperature} | ({"beta": beta} if kind == "jsd" else {})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(teaching, "chunk_rows", lambda *_: rows)
        scores = score_tokens(STUDENT, batch, temperature=drawn_at)
        found = operator("objective", "distill", **config)(scores, batch, taught(TEACHER, temperature=drawn_at))
        weights = torch.linspace(0.1, 1.0, batch.num_tokens, dtype=torch.float64)
        ours = gradients((found.loss * weights).sum())
    expected = by_rows(batch, TEACHER, kind, beta, temperature or drawn_at)
    torch.testing.assert_close(found.loss, expected, rtol=1e-6, atol=1e-9)
    assert torch.equal(found.metrics["teacher_divergence"], found.loss.detach())
    for mine, other in zip(ours, gradients((expected * weights).sum()), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-6, atol=1e-9)
    assert all(weight.grad is None for weight in TEACHER.module.parameters())


def test_several_teachers_are_averaged() -> None:
    batch = batch_of([[0.0] * len(group) for group in LENGTHS], LENGTHS)
    scores = score_tokens(STUDENT, batch, temperature=1.0)
    found = operator("objective", "distill")(scores, batch, taught(TEACHER, OTHER))
    single = [by_rows(batch, teacher, "reverse_kl", 0.5, 1.0) for teacher in (TEACHER, OTHER)]
    torch.testing.assert_close(found.loss, (single[0] + single[1]) / 2, rtol=1e-6, atol=1e-9)


def test_only_learned_tokens_are_compared_and_the_others_are_read() -> None:
    batch = batch_of([[0.0, 0.0]], [[4, 3]])
    learned = torch.tensor([True, False, True, True, False, False, True])
    scores = score_tokens(STUDENT, part := replace(batch, learned=learned).of_learned(), temperature=1.0)
    found = operator("objective", "distill", top_k=4)(scores, part, taught(TEACHER))
    whole = operator("objective", "distill", top_k=4)(
        score_tokens(STUDENT, batch, temperature=1.0), batch, taught(TEACHER)
    )
    torch.testing.assert_close(found.loss, whole.loss[learned], rtol=1e-6, atol=1e-9)


def test_a_teacher_of_another_backend_says_the_same(tmp_path: Path) -> None:
    TEACHER.save(tmp_path)
    native, hosted = (load_policy(tmp_path, dtype="float64", backend=name) for name in ("native", "transformers"))
    batch = batch_of([[0.0] * len(group) for group in LENGTHS], LENGTHS)
    scores = score_tokens(STUDENT, batch, temperature=1.0)
    found = [operator("objective", "distill")(scores, batch, taught(one)).loss for one in (native, hosted)]
    assert native.backend != hosted.backend
    torch.testing.assert_close(*found, rtol=1e-5, atol=1e-8)


def test_an_endpoint_has_no_logits() -> None:
    batch = batch_of([[0.0]], [[2]])
    scores = score_tokens(STUDENT, batch, temperature=1.0)
    endpoint = context(further={"teachers": [SimpleNamespace(name="endpoint:big")]})
    with pytest.raises(InputError, match="the logits of endpoint:big are to be compared, and an endpoint gives none"):
        operator("objective", "distill")(scores, batch, endpoint)


def test_a_teacher_that_cannot_read_the_tokens_says_so() -> None:
    batch = batch_of([[0.0]], [[6]])
    scores = score_tokens(STUDENT, batch, temperature=1.0)
    with pytest.raises(InputError, match=r"8 tokens .* teacher big.model, which has 7 positions"):
        operator("objective", "distill")(scores, batch, taught(made(3, max_positions=7)))
    strange = replace(batch, tokens=torch.tensor([1, 2, 10, 3, 4, 5]))
    with pytest.raises(InputError, match=r"token 10, .* teacher big.model knows 9"):
        operator("objective", "distill")(scores, strange, taught(made(3, vocab_size=9)))


def test_beta_without_a_mixture_is_refused() -> None:
    with pytest.raises(ValueError, match="beta is the mixture's of divergence jsd, and reverse_kl has none"):
        DistillConfig(beta=0.5)
    assert DistillConfig(divergence="jsd", beta=0.9).beta == 0.9


@pytest.mark.parametrize("changes", [{"beta": 0}, {"beta": 1}, {"temperature": 0}, {"top_k": 0}, {"divergence": "kl"}])
def test_values_outside_their_range_are_refused_by_name(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(changes))):
        RLParams.model_validate({"method": "reinforce", "objective": {"name": "distill", **changes}})


class Drawn:
    """A collector that notes what is asked of it."""

    def __init__(self) -> None:
        self.given: list[str] = []

    def draw(self, prompts: Any, count: int) -> Batch:
        return batch_of([[0.0] * count for _ in prompts]).by(POLICY)

    def responses(self, prompts: Any, texts: Any) -> Batch:
        self.given += texts
        batch = batch_of([[0.0] for _ in texts])
        return replace(batch, prompts=tuple(prompts)).by(FOREIGN)


def shared(step: int, seed: int = 0, count: int = 1, **config: Any) -> tuple[Batch, Drawn, dict[str, float]]:
    prompts = [prompt(at) for at in range(3)]
    collector, now = Drawn(), context(step, seed=seed, group_size=2)
    rollout = operator(
        "rollout", "student_share", demonstrator={"name": "gold", "markup": False}, count=count, **config
    )
    return rollout(prompts, collector, now), collector, now.metrics


def test_the_share_of_steps_that_the_policy_draws() -> None:
    own = [bool(shared(step, share=0.3)[2]["student_draws"]) for step in range(400)]
    assert sum(own) / 400 == pytest.approx(0.3, abs=0.07)
    assert own == [bool(shared(step, share=0.3)[2]["student_draws"]) for step in range(400)], "by seed and step alone"
    assert own != [bool(shared(step, seed=1, share=0.3)[2]["student_draws"]) for step in range(400)]
    assert all(shared(step, share=1)[2]["student_draws"] for step in range(20))
    assert not any(shared(step, share=0)[2]["student_draws"] for step in range(20))


def test_given_responses_are_external_and_grouped_by_prompt() -> None:
    drawn, collector, _ = shared(0, share=1)
    assert not collector.given and not drawn.external.any() and drawn.num_responses == 6
    batch, collector, _ = shared(0, share=0, count=2)
    assert collector.given == ["0", "0", "1", "1", "2", "2"] and batch.external.all()
    assert batch.group.tolist() == [0, 0, 1, 1, 2, 2] and [one.item.id for one in batch.prompts] == ["p0", "p1", "p2"]


def test_rows_without_a_recorded_response_are_named() -> None:
    rollout = operator("rollout", "student_share", share=0)
    with pytest.raises(InputError, match="item p0 has no text under 'solution'"):
        rollout([prompt(0)], Drawn(), context())


def test_labels_that_are_ignored_leave_nothing_to_give() -> None:
    given = {"method": "reinforce", "rollout": "student_share", "labels": "ignored", "rewards": ["overlong"]}
    with pytest.raises(ValueError, match="rollout operator 'student_share' reads answers"):
        RLParams.model_validate(given)


def test_memory_counts_the_teachers_passes_and_its_draws_only_where_it_writes(tmp_path: Path) -> None:
    TEACHER.save(tmp_path)
    sizes = ModelSizes.from_config(json.loads((tmp_path / "config.json").read_text()))
    assert sizes is not None and COMPONENT.further_memory is rl_further_needs
    base = {"method": "reinforce"}

    def needs(**given: Any) -> list[str]:
        params = RLParams.model_validate(base | given)
        return [need.name for need in rl_further_needs("teachers", sizes, params, Resources())]

    assert needs(objective="distill") == ["weights of a teacher", "passes of a teacher", "logits", "logits"]
    both = needs(objective="distill", guidance="teachers")
    assert both[:4] == needs(objective="distill") and both.count("weights of a teacher") == 1 and len(both) > 4
    assert both[4:] == [name for name in needs(guidance="teachers") if name not in ("weights of a teacher", "logits")]
