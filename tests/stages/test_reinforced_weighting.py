"""The policy that weighs source tasks: REINFORCE by hand, what it finds, and that it goes on where it stopped."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from components.sft.reinforced_weights import reinforce
from components.sft.weighting import Weighting
from components.sft.weightings.reinforced import ReinforcedConfig, reinforced
from components.sft.weightings.uniform import UniformConfig, uniform
from components.tasks.seeds import derive_rng

TASKS = ["a", "b", "c"]


def test_the_gradient_is_what_one_works_out_by_hand() -> None:
    """Of softmax it is the mean of advantage times (one-hot of the chosen - w); w is (3/4, 1/4) here."""
    logits = torch.tensor([3.0, 1.0]).log().requires_grad_(True)
    loss = reinforce(torch.log_softmax(logits, -1), torch.tensor([0, 1]), torch.tensor([2.0, -1.0]))
    loss.backward()
    # 2 (1 - 3/4, -1/4) = (1/2, -1/2), and -1 (-3/4, 1 - 1/4) = (3/4, -3/4): mean (5/8, -5/8), the loss minus it
    torch.testing.assert_close(logits.grad, torch.tensor([-0.625, 0.625]))


@given(
    values=st.lists(st.floats(-3, 3), min_size=3, max_size=3), gains=st.lists(st.floats(-2, 2), min_size=3, max_size=3)
)
@settings(max_examples=25, deadline=None)
def test_over_all_choices_it_is_the_gradient_of_the_expected_reward(values: list[float], gains: list[float]) -> None:
    logits = torch.tensor(values, dtype=torch.float64, requires_grad=True)
    rewards = torch.tensor(gains, dtype=torch.float64)
    shares = torch.softmax(logits, -1)
    (expected,) = torch.autograd.grad((shares * rewards).sum(), logits)
    total = torch.zeros(3, dtype=torch.float64)
    for choice in range(3):
        loss = reinforce(torch.log_softmax(logits, -1), torch.tensor([choice]), rewards[choice : choice + 1] - 0.4)
        (gradient,) = torch.autograd.grad(loss, logits)
        total -= shares[choice].item() * gradient
    torch.testing.assert_close(total, expected, rtol=1e-9, atol=1e-12)


def play(weighting: Weighting, steps: int, *, first: int = 0) -> list[list[float]]:
    """Let the second task help three times as much as the others, with noise."""
    seen = []
    for step in range(first, first + steps):
        seen.append(weighting.weights())
        noise = derive_rng(step, "gains")
        weighting.learn([mean + noise.gauss(0, 0.01) for mean in (0.01, 0.03, 0.01)])
    return seen


def test_it_begins_with_equal_weights_and_finds_the_task_that_helps() -> None:
    for seed in range(3):
        seen = play(reinforced(TASKS, seed, config=ReinforcedConfig()), 120)
        assert seen[0] == pytest.approx([1 / 3] * 3)
        assert all(sum(weights) == pytest.approx(1) and min(weights) >= 0 for weights in seen)
        assert seen[-1][1] > 0.6


def test_entropy_keeps_it_able_to_turn_to_another_task() -> None:
    """Without it the weights of the others vanish, and no draw ever finds that they help now."""
    for entropy, turns in ((0.4, True), (0.0, False)):
        weighting = reinforced(TASKS, 0, config=ReinforcedConfig(entropy=entropy))
        for step in range(200):
            last = weighting.weights()
            weighting.learn([1.0, 0.0, 0.0] if step < 60 else [0.0, 0.0, 1.0])
        assert (last[2] > 0.9) is turns and (last[0] > 0.9) is not turns


def test_restored_it_goes_on_bit_for_bit_and_leaves_torchs_generator_alone() -> None:
    before = torch.get_rng_state()
    straight = reinforced(TASKS, 4, config=ReinforcedConfig())
    expected = play(straight, 30)
    stopped = reinforced(TASKS, 4, config=ReinforcedConfig())
    play(stopped, 11)
    restored = reinforced(TASKS, 4, config=ReinforcedConfig())
    restored.load_state(stopped.state())
    assert play(restored, 19, first=11) == expected[11:]
    own, other = straight.state(), restored.state()
    assert own.keys() == other.keys() and all(torch.equal(own[name], other[name]) for name in own)
    assert torch.equal(torch.get_rng_state(), before)
    assert play(reinforced(TASKS, 5, config=ReinforcedConfig()), 30) != expected


def test_the_lstm_is_torchs() -> None:
    """One cell of the functional form against torch.nn.LSTMCell with the same weights."""
    weighting = reinforced(TASKS, 0, config=ReinforcedConfig(hidden=5))
    play(weighting, 3)
    state = weighting.state()
    cell = torch.nn.LSTMCell(6, 5)
    cell.load_state_dict(
        {
            "weight_ih": state["policy.input"],
            "weight_hh": state["policy.hidden"],
            "bias_ih": state["policy.input_bias"],
            "bias_hh": state["policy.hidden_bias"],
        }
    )
    h, _ = cell(state["seen"], (state["h"], state["c"]))
    expected = torch.softmax(state["policy.output"] @ h[0] + state["policy.output_bias"], -1)
    torch.testing.assert_close(torch.tensor(weighting.weights()), expected)


def test_gains_of_nothing_change_no_weight() -> None:
    weighting = reinforced(TASKS, 0, config=ReinforcedConfig())
    for _ in range(3):
        assert weighting.weights() == pytest.approx([1 / 3] * 3)
        weighting.learn([0.0, 0.0, 0.0])


def test_uniform_stays_equal() -> None:
    weighting = uniform(TASKS, 0, config=UniformConfig())
    assert play(weighting, 3) == [[1 / 3] * 3] * 3 and weighting.state() == {}
