from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import cross_entropy, kl_div, log_softmax

from components.contract.errors import InputError
from components.modeling.loading.load import new_policy
from components.modeling.models.model_config import ModelConfig
from components.modeling.models.policy import Policy
from components.modeling.packing.packed import Packed
from components.modeling.supervised import distillation as module
from components.modeling.supervised.distillation import Distillation, check_tokenizers, taught
from components.modeling.supervised.distillation_config import DistillationConfig
from components.modeling.supervised.examples import Example, examples_from_rows
from components.modeling.supervised.loss import accumulate_gradients
from components.modeling.text.prompting import Encoded
from components.modeling.text.tokenizer import train_tokenizer
from components.modeling.training.build import build_trainer
from components.modeling.training.optimizer import OptimizerConfig

torch.set_num_threads(1)

TOKENIZER = train_tokenizer([], {"sums": ["Add 1 to 2.", "Add 3 to 4."]})
STUDENT = new_policy(
    ModelConfig(width=16, layers=2, heads=2, mlp_width=24), tokenizer=TOKENIZER, seed=0, dtype="float64"
)
TEACHER = new_policy(
    ModelConfig(width=8, layers=1, heads=2, mlp_width=16), tokenizer=TOKENIZER, seed=1, dtype="float64"
)
TRAINER = build_trainer(STUDENT, OptimizerConfig(), total_steps=1)
LAST = len(TOKENIZER) - 1


@st.composite
def hinted(draw: st.DrawFn) -> Example:
    tokens = st.lists(st.integers(0, LAST), min_size=1, max_size=6)
    prompt, hint, response = draw(tokens), draw(tokens), draw(tokens)
    own = Example([*prompt, *response], [False] * len(prompt) + [True] * len(response))
    read = Encoded([*hint, *prompt, *response], [False] * (len(hint) + len(prompt)) + [True] * len(response))
    return replace(own, weight=draw(st.floats(0.05, 1.0)), taught=read if draw(st.booleans()) else None)


def logits_at(policy: Policy, tokens: list[int], count: int) -> torch.Tensor:
    """Return the logits [count, V] that predict the last tokens of one sequence, computed alone."""
    packed = Packed.from_sequences([tokens])
    return policy.logits(policy.hidden(packed))[-count:]


def loss_of_rows(batch: list[Example], config: DistillationConfig) -> tuple[torch.Tensor, float]:
    """Work out the loss by torch.nn.functional, row by row; return it, and the mean divergence."""
    total, apart, whole = torch.zeros(()), 0.0, sum(row.weight * row.num_targets for row in batch)
    for row in batch:
        targets, t = torch.tensor(list(row.tokens)[-row.num_targets :]), config.temperature
        own = logits_at(STUDENT, list(row.tokens), row.num_targets)
        read = row.taught.tokens if row.taught else list(row.tokens)
        other = logits_at(TEACHER, read, row.num_targets).detach()
        far = kl_div(log_softmax(own / t, -1), log_softmax(other / t, -1), reduction="sum", log_target=True) * t**2
        nll = cross_entropy(own, targets, reduction="sum")
        total = total + row.weight * (config.divergence * far + config.cross_entropy * nll) / whole
        apart += row.weight * far.item() / whole
    return total, apart


def gradients() -> list[torch.Tensor]:
    found = [parameter.grad.clone() for parameter in STUDENT.module.parameters()]
    STUDENT.module.zero_grad()
    return found


@given(
    batch=st.lists(hinted(), min_size=1, max_size=5),
    budget=st.integers(1, 40),
    rows=st.sampled_from([1, 3, 10_000]),
    divergence=st.sampled_from([0.5, 1.0]),
    likelihood=st.sampled_from([0.0, 0.3]),
    temperature=st.sampled_from([1.0, 2.0]),
)
@settings(max_examples=25, deadline=None)
def test_loss_and_gradient_are_those_of_single_rows_by_torch_in_float64(
    batch: list[Example], budget: int, rows: int, divergence: float, likelihood: float, temperature: float
) -> None:
    """However the batch is cut into passes, and the logits into chunks."""
    config = DistillationConfig(divergence=divergence, cross_entropy=likelihood, temperature=temperature)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "chunk_rows", lambda *_: rows)
        found = accumulate_gradients(TRAINER, batch, max_tokens=budget, objective=Distillation(TEACHER, config))
    got = gradients()
    loss, apart = loss_of_rows(batch, config)
    loss.backward()
    assert found.loss == pytest.approx(loss.item(), rel=1e-6)
    assert found.parts["divergence"] == pytest.approx(apart, rel=1e-6)
    for mine, expected in zip(got, gradients(), strict=True):
        torch.testing.assert_close(mine, expected, rtol=1e-6, atol=1e-9)
    assert all(parameter.grad is None for parameter in TEACHER.module.parameters())


def test_a_model_that_is_its_own_teacher_under_one_prompt_has_nothing_to_learn() -> None:
    batch = [Example([1, 2, 3, 4], [False, False, True, True])]
    found = accumulate_gradients(
        TRAINER, batch, max_tokens=100, objective=Distillation(STUDENT.copy(), DistillationConfig())
    )
    assert abs(found.loss) < 1e-12 and max(gradient.abs().max() for gradient in gradients()) < 1e-12
    assert found.parts["cross_entropy"] > 1


def test_another_tokenizer_is_refused_with_the_first_token_that_differs() -> None:
    other = train_tokenizer([], {"sums": ["Multiply 1 by 2.", "Multiply 3 by 4."]})
    with pytest.raises(InputError, match=r"another tokenizer: token '.*' is (id \d+|absent) in the model and"):
        check_tokenizers(TOKENIZER, other)
    with pytest.raises(InputError, match="the teacher has no tokenizer"):
        check_tokenizers(TOKENIZER, None)
    check_tokenizers(TOKENIZER, train_tokenizer([], {"sums": ["Add 1 to 2.", "Add 3 to 4."]}))


def test_targets_must_be_the_same_tokens() -> None:
    rows = [{"prompt": "Add 1 to 2.", "response": "3"}]
    (own,) = examples_from_rows(TOKENIZER, rows)
    (read,) = examples_from_rows(TOKENIZER, [{**rows[0], "prompt": "Add 3 to 4.Add 1 to 2."}])
    (found,) = taught([own], [read])
    assert found.taught == Encoded(list(read.tokens), list(read.loss_mask)) and found.longest == len(read.tokens)
    with pytest.raises(InputError, match="row 1: the teacher's template ends the response otherwise"):
        taught([own], [replace(read, tokens=[*read.tokens[:-1], 0])])


def test_a_distillation_without_divergence_is_refused() -> None:
    with pytest.raises(ValueError, match="divergence 0 leaves nothing to distil"):
        DistillationConfig(divergence=0, cross_entropy=1)
