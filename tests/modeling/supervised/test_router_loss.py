"""SFT of a mixture whose config asks for it balances its experts: the gradient is that of transformers' own loss."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from components.modeling.loading.load import load_policy
from components.modeling.models.policy import Policy
from components.modeling.supervised.examples import Example
from components.modeling.supervised.loss import accumulate_gradients, evaluate_loss
from components.modeling.training.build import build_trainer
from components.modeling.training.training_config import OptimizerConfig
from tests.modeling.decoder_models import MIXTURES, build, token_lists

COEFFICIENT = 0.5
ROWS = token_lists([9, 4, 7], seed=3)


def saved(folder: Path, kind: str, *, asks: bool) -> Path:
    """Save a mixture whose config asks for the loss, or does not."""
    torch.manual_seed(0)
    model = build(kind)
    model.config.output_router_logits, model.config.router_aux_loss_coef = asks, COEFFICIENT
    model.save_pretrained(folder)
    return folder


def gradients(policy: Policy, *, max_tokens: int = 999) -> dict[str, Tensor]:
    """Return the gradients of one batch."""
    trainer = build_trainer(policy, OptimizerConfig(), total_steps=1)
    batch = [Example(row, [True] * len(row)) for row in ROWS]
    accumulate_gradients(trainer, batch, max_tokens=max_tokens)
    found = {name: p.grad.clone() for name, p in policy.trainable() if p.grad is not None}
    policy.module.zero_grad()
    return found


def own_loss(policy: Policy, rows: list[list[int]]) -> tuple[Tensor, Tensor]:
    """Return transformers' loss of padded rows, and its load-balancing part without the coefficient."""
    width = max(map(len, rows))
    tokens = torch.tensor([row + [0] * (width - len(row)) for row in rows])
    mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows])
    labels = tokens.masked_fill(mask == 0, -100)
    out = policy.module(input_ids=tokens, attention_mask=mask, labels=labels, output_router_logits=True)
    return out.loss, out.aux_loss


@pytest.mark.parametrize("kind", MIXTURES)
def test_gradients_are_those_of_transformers(tmp_path: Path, kind: str) -> None:
    policy = load_policy(saved(tmp_path, kind, asks=True))
    found = gradients(policy)
    own_loss(policy, ROWS)[0].backward()
    for name, parameter in policy.trainable():
        if parameter.grad is not None:
            torch.testing.assert_close(found[name], parameter.grad, atol=1e-5, rtol=1e-4)


def test_passes_count_by_their_tokens(tmp_path: Path) -> None:
    policy = load_policy(saved(tmp_path, MIXTURES[0], asks=True))
    plain = load_policy(saved(tmp_path / "plain", MIXTURES[0], asks=False))
    found, without = gradients(policy, max_tokens=9), gradients(plain, max_tokens=9)
    shares = [len(row) / sum(map(len, ROWS)) for row in ROWS]
    balance = sum(share * own_loss(policy, [row])[1] for share, row in zip(shares, ROWS, strict=True))
    (COEFFICIENT * balance).backward()
    routers = [name for name, _ in policy.trainable() if "gate.weight" in name and "experts" not in name]
    assert routers
    for name, parameter in policy.trainable():
        if name in routers:
            torch.testing.assert_close(found[name] - without[name], parameter.grad, atol=1e-5, rtol=1e-4)
            assert float(parameter.grad.abs().max()) > 1e-3


def test_only_training_adds_it(tmp_path: Path) -> None:
    """Validation, and a model whose config does not ask, have the loss of their tokens alone."""
    policy = load_policy(saved(tmp_path, MIXTURES[0], asks=True))
    plain = load_policy(saved(tmp_path / "plain", MIXTURES[0], asks=False))
    batch = [Example(row, [True] * len(row)) for row in ROWS]
    assert evaluate_loss(policy, batch, max_tokens=99) == evaluate_loss(plain, batch, max_tokens=99)
    assert policy.take_router_loss() is None
    assert any(not torch.equal(one, gradients(plain)[name]) for name, one in gradients(policy).items())
