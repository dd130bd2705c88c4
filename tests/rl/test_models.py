"""Models beside the trained policy: moving copies, the value model, and what is read off hidden states."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from components.contract.errors import InputError
from components.modeling.models.policy import Policy
from components.modeling.packing import chunks as chunking
from components.modeling.packing.packed import Packed
from components.rl.configs import CriticConfig
from components.rl.step.critic import ValueModel
from components.rl.step.policies import Policies
from components.rl.step.scoring import (
    frozen_entropies,
    frozen_token_map,
    micro_rows,
    prompt_hidden,
    response_hidden,
    score_tokens,
)
from tests.rl.build import batch_of, context, operator
from tests.rl.step.test_learner import LENGTHS, REWARDS, tiny

BATCH = batch_of(REWARDS, LENGTHS)


def moved(policy: Policy, seed: int) -> None:
    """Change the weights as an update would."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for _, weight in policy.trainable():
            weight.add_(torch.randn(weight.shape, generator=generator))


def weights(policy: Policy) -> dict[str, Tensor]:
    return {name: weight.detach().clone() for name, weight in policy.module.named_parameters()}


def test_an_average_follows_and_a_snapshot_jumps() -> None:
    policies = Policies(tiny(), Path("unused"), dtype="float32")
    now = context(policies=policies)
    average = operator("reference", "ema", decay=0.75)(policies, now)
    snapshot = operator("reference", "reset", every=2)(policies, now)
    history = [weights(policies.trained)]
    for number in (1, 2, 3):
        moved(policies.trained, number)
        history.append(weights(policies.trained))
        policies.end_step(number)
    assert policies.average(0.75) is average and not any(p.requires_grad for p in average.module.parameters())
    for name, weight in weights(average).items():
        by_hand = history[0][name]
        for later in history[1:]:
            by_hand = 0.75 * by_hand + 0.25 * later[name]
        assert torch.allclose(weight, by_hand, atol=1e-6)
        assert torch.equal(weights(snapshot)[name], history[2][name])
    policies.restart_reference()
    for policy in (average, snapshot, policies.anchor):
        assert all(torch.equal(weights(policy)[name], last) for name, last in history[3].items())
    moved(policies.trained, 4)
    policies.end_step(5)  # the anchor never moves by itself
    assert all(torch.equal(weights(policies.anchor)[name], last) for name, last in history[3].items())


def test_copies_are_restored() -> None:
    first, second = (Policies(tiny(), Path("unused"), dtype="float32") for _ in range(2))
    first.average(0.9), first.snapshot(3)
    moved(first.trained, 1)
    first.end_step(1)
    second.load_state(first.state())
    assert first.state().keys() == second.state().keys()
    assert all(torch.equal(value, second.state()[name]) for name, value in first.state().items())


def value_model(policy: Policy, *, max_tokens: int = 99, **config: object) -> ValueModel:
    return ValueModel(policy, CriticConfig.model_validate(config), micro_batch_tokens=max_tokens)


def test_values_begin_at_zero_and_are_of_the_tokens_before() -> None:
    policy = tiny("float64")
    made = value_model(policy)
    assert made.values(BATCH).tolist() == [0.0] * BATCH.num_tokens
    with torch.no_grad():
        made._head.weight.normal_(generator=torch.Generator().manual_seed(0))
    values = made.values(BATCH)
    row, start = 1, 3  # the second response, of five tokens
    sequence = [*BATCH.prompts[0].tokens, *BATCH.tokens[start : start + 5].tolist()]
    hidden = policy.hidden(Packed.from_sequences([sequence], keep_last=True))
    expected = (hidden @ made._head.weight.T.double()).squeeze(-1)[2:7].float()
    assert torch.allclose(values[BATCH.response_of == row], expected, atol=1e-6)
    assert torch.equal(value_model(policy, max_tokens=9).values(BATCH), torch.zeros(BATCH.num_tokens))


@pytest.mark.parametrize("clip", [None, 0.05])
def test_the_value_loss_equals_the_formula_and_its_gradient_the_pieces(clip: float | None) -> None:
    policy = tiny("float64")
    targets = BATCH.to_tokens(BATCH.rewards).clone()
    targets[4] = torch.nan
    batch = replace(BATCH, values=torch.linspace(-0.1, 0.1, BATCH.num_tokens))
    made, pieces = (value_model(policy, clip=clip, max_tokens=size, clip_norm=None) for size in (99, 9))
    by_hand = []
    for old, target in zip(batch.values.tolist(), targets.tolist(), strict=True):
        if target == target:
            error = (0.0 - target) ** 2
            held = old + (min(max(0.0 - old, -clip), clip) if clip else 0.0 - old)
            by_hand.append(max(error, (held - target) ** 2) / 2 if clip else error / 2)
    metrics = made.fit(batch, targets)
    assert metrics["critic_loss"] == pytest.approx(sum(by_hand) / len(by_hand), rel=1e-6)
    in_pieces = pieces.fit(batch, targets)
    assert in_pieces["critic_grad_norm"] == pytest.approx(metrics["critic_grad_norm"], rel=1e-6)
    assert all(
        torch.allclose(value, pieces.trainer.weights()[name], atol=1e-6)
        for name, value in made.trainer.weights().items()
    )


def test_fitting_lowers_the_error_and_leaves_the_policy_alone() -> None:
    policy = tiny()
    before = weights(policy)
    made = value_model(policy, learning_rate=1e-2, epochs=40)
    targets = BATCH.positions / 5  # what a state before a token tells: all prompts are equal, responses are not
    made.fit(replace(BATCH, values=made.values(BATCH)), targets)
    values = made.values(BATCH)
    assert float((values - targets).square().mean()) < 0.1 * float(targets.square().mean())
    assert made.fit(replace(BATCH, values=values), targets)["critic_explained"] > 0.8
    assert all(torch.equal(weight, before[name]) for name, weight in weights(policy).items())
    assert made.fit(BATCH, torch.full_like(targets, torch.nan)) == {}


def test_a_function_of_distributions_equals_the_one_over_all_logits(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = tiny()
    scores = score_tokens(policy, BATCH, temperature=0.5)
    assert scores.hidden is not None
    logits = policy.logits(scores.hidden) / 0.5
    whole = torch.log_softmax(logits, -1)
    assert torch.allclose(whole.gather(1, BATCH.tokens.unsqueeze(1)).squeeze(1), scores.logprobs, atol=1e-6)
    rows = torch.tensor([3, 0, 7])
    assert torch.allclose(scores.logits_at(rows), logits[rows], atol=1e-6)
    for elements in (1 << 25, 25):  # the second: two rows of 11 logits at a time
        monkeypatch.setattr(chunking, "CHUNK_ELEMENTS", elements)
        found = frozen_token_map(
            policy, BATCH, lambda hidden, _, logits_of: logits_of(hidden).log_softmax(-1).mean(-1), 9, temperature=0.5
        )
        assert torch.allclose(found, whole.mean(-1), atol=1e-6)
        entropies = -(policy.logits(scores.hidden).log_softmax(-1).exp() * policy.logits(scores.hidden).log_softmax(-1))
        assert torch.allclose(frozen_entropies(policy, BATCH, max_tokens=9), entropies.sum(-1), atol=1e-6)


def test_logits_at_carries_its_gradient() -> None:
    policy = tiny()
    scores = score_tokens(policy, BATCH, temperature=1.0)
    scores.logits_at(torch.tensor([2])).square().sum().backward()
    found = [weight.grad.clone() for _, weight in policy.trainable() if weight.grad is not None]
    policy.module.zero_grad()
    again = score_tokens(policy, BATCH, temperature=1.0)
    assert again.hidden is not None
    policy.logits(again.hidden)[2].square().sum().backward()
    expected = [weight.grad for _, weight in policy.trainable() if weight.grad is not None]
    assert found and all(torch.allclose(a, b, atol=1e-6) for a, b in zip(found, expected, strict=True))


def test_hidden_states_of_responses_and_prompts() -> None:
    policy = tiny()
    found = response_hidden(policy, BATCH, max_tokens=9)
    starts = (BATCH.lengths.cumsum(0) - BATCH.lengths).tolist()
    for row, (start, length) in enumerate(zip(starts, BATCH.lengths.tolist(), strict=True)):
        sequence = [*BATCH.prompts[int(BATCH.group[row])].tokens, *BATCH.tokens[start : start + length].tolist()]
        whole = policy.hidden(Packed.from_sequences([sequence], keep_last=True))
        assert torch.allclose(found[row], whole[3:], atol=1e-5)
    for prompt, final in zip(
        BATCH.prompts, prompt_hidden(policy, BATCH.prompts, layer="final", max_tokens=5), strict=True
    ):
        assert torch.allclose(final, policy.hidden(Packed.from_sequences([prompt.tokens], keep_last=True)), atol=1e-5)


def test_the_mlps_input_is_what_its_layer_computes() -> None:
    policy = tiny()
    seen: list[Tensor] = []
    layer = policy.module.layers[-1]
    (found,) = prompt_hidden(policy, BATCH.prompts[:1], layer="mlp_in", max_tokens=5)
    with torch.no_grad():
        layer.down.zero_()  # the block is then its input plus attention: x of the MLP's norm
        policy.module.norm.fill_(1.0)
        seen.append(policy.hidden(Packed.from_sequences([BATCH.prompts[0].tokens], keep_last=True)))
    assert torch.allclose(found, seen[0], atol=1e-5)  # both norms have gains of one at the start


def test_whole_groups_are_never_cut() -> None:
    rows = [part.tolist() for part in micro_rows(BATCH, 8, whole_groups=True)]
    assert sorted(rows) == [[0, 1, 2], [3, 4], [5, 6, 7, 8]]
    assert len(list(micro_rows(BATCH, 8))) > 3


def test_a_backend_without_mlp_inputs_says_so() -> None:
    class Other(Policy):
        backend = "other"
        hidden = logits = session = recompute_layers = layers = steer = None  # type: ignore[assignment]
        export = export_config = named_weights = None  # type: ignore[assignment]

    with pytest.raises(InputError, match="other backend"):
        Other().mlp_input(Packed.from_sequences([[1, 2]]))
