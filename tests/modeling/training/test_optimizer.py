from __future__ import annotations

from collections import OrderedDict

import pytest
import torch
from torch import nn

from components.contract.errors import InputError, StageFailed
from components.modeling.training.muon import Muon
from components.modeling.training.optimizer import Optimizer, OptimizerConfig, build_optimizer

torch.set_num_threads(1)  # equal bits are promised for one thread


def network(seed: int = 0) -> nn.Sequential:
    """An embedding, a matrix, a norm and a head, named as models name them."""
    torch.manual_seed(seed)
    return nn.Sequential(
        OrderedDict(
            embed_tokens=nn.Embedding(7, 6),
            up=nn.Linear(6, 5),
            norm=nn.LayerNorm(5),
            lm_head=nn.Linear(5, 7, bias=False),
        )
    )


def backward(module: nn.Module, step: int) -> None:
    tokens = torch.randint(0, 7, (4,), generator=torch.Generator().manual_seed(step))
    nn.functional.cross_entropy(module(tokens), tokens.roll(1)).backward()


def build(module: nn.Module, *, total_steps: int = 20, **settings: object) -> Optimizer:
    return build_optimizer(module, OptimizerConfig.model_validate(settings), total_steps=total_steps)


def test_adamw_with_clipping_and_schedule_agrees_with_torchs_own_parts() -> None:
    module, twin = network(), network()
    ours = build(
        module,
        peak_learning_rate=0.05,
        schedule="linear",
        betas=[0.8, 0.9],
        weight_decay=0.1,
        clip_norm=1.5,
    )
    groups = [
        {"params": [p for p in twin.parameters() if p.ndim == 2], "weight_decay": 0.1},
        {"params": [p for p in twin.parameters() if p.ndim == 1], "weight_decay": 0.0},
    ]
    reference = torch.optim.AdamW(groups, lr=0.05, betas=(0.8, 0.9), foreach=False, fused=False)
    clipped = set()
    for step in range(20):
        backward(module, step)
        backward(twin, step)
        norm = nn.utils.clip_grad_norm_(twin.parameters(), 1.5)
        for group in reference.param_groups:
            group["lr"] = 0.05 * (1 - step / 20)
        reference.step()
        reference.zero_grad()
        update = ours.step(step)
        assert update.grad_norm == pytest.approx(norm.item(), rel=1e-5)
        assert update.learning_rate == pytest.approx(0.05 * (1 - step / 20))
        clipped.add(update.clipped)
    assert clipped == {True, False}  # both cases were met
    for a, b in zip(module.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)


def test_gradients_are_cleared_after_a_step() -> None:
    module = network()
    backward(module, 0)
    build(module).step(0)
    assert all(p.grad is None for p in module.parameters())


def test_muon_takes_inner_matrices_and_leaves_tables_norms_and_biases_to_adamw() -> None:
    module = network()
    twin = network()
    ours = build(module, name="muon", peak_learning_rate=0.02, clip_norm=None)
    muon = Muon([twin.up.weight], lr=0.02)
    rest = [p for name, p in twin.named_parameters() if name != "up.weight"]
    adamw = torch.optim.AdamW(rest, lr=0.02, betas=(0.9, 0.95), weight_decay=0.0)
    for step in range(3):
        backward(module, step)
        backward(twin, step)
        ours.step(step)
        muon.step()
        adamw.step()
        twin.zero_grad()
    for a, b in zip(module.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(a, b)


def test_frozen_parameters_stay_as_they_are() -> None:
    module = network()
    module.up.requires_grad_(False)
    before = module.up.weight.clone()
    optimizer = build(module, peak_learning_rate=0.1)
    backward(module, 0)
    optimizer.step(0)
    assert torch.equal(module.up.weight, before)
    module.requires_grad_(False)
    with pytest.raises(InputError, match="nothing would be trained"):
        build(module)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_gradient_that_is_not_finite_stops_the_stage_before_it_harms_the_weights(value: float) -> None:
    module = network()
    optimizer = build(module, clip_norm=None)
    backward(module, 0)
    module.up.weight.grad[0, 0] = value
    before = [p.clone() for p in module.parameters()]
    with pytest.raises(StageFailed, match=r"at step 3.*peak_learning_rate"):
        optimizer.step(3)
    assert all(torch.equal(a, b) for a, b in zip(before, module.parameters(), strict=True))


@pytest.mark.parametrize("name", ["adamw", "muon"])
def test_a_restored_optimizer_goes_on_bit_for_bit(name: str) -> None:
    module = network()
    optimizer = build(module, name=name, peak_learning_rate=0.03, schedule="cosine")
    for step in range(5):
        backward(module, step)
        optimizer.step(step)
    weights, state = [p.detach().clone() for p in module.parameters()], optimizer.state()
    state = {key: value.clone() for key, value in state.items()}
    copy = network(seed=9)
    with torch.no_grad():
        for target, source in zip(copy.parameters(), weights, strict=True):
            target.copy_(source)
    restored = build(copy, name=name, peak_learning_rate=0.03, schedule="cosine")
    backward(copy, 77)
    restored.step(0)  # some other history, to be forgotten
    with torch.no_grad():
        for target, source in zip(copy.parameters(), weights, strict=True):
            target.copy_(source)
    restored.load_state(state)
    for step in range(5, 10):
        for one, opt in ((module, optimizer), (copy, restored)):
            backward(one, step)
            opt.step(step)
    assert all(torch.equal(a, b) for a, b in zip(module.parameters(), copy.parameters(), strict=True))


def test_the_state_of_another_model_is_refused() -> None:
    module = network()
    optimizer = build(module)
    with pytest.raises(InputError, match=r"another model.*'other.weight'"):
        optimizer.load_state({"exp_avg/other.weight": torch.zeros(2)})
