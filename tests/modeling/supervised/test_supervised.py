from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM

from components.contract.context import Write
from components.contract.errors import InputError
from components.modeling.loading.load import new_policy
from components.modeling.models.model_config import ModelConfig
from components.modeling.supervised.examples import Example, examples_from_rows, split_long
from components.modeling.supervised.trainer import accumulate_gradients, evaluate_loss, fit
from components.modeling.text.tokenizer import train_tokenizer
from components.modeling.training.build import build_trainer
from components.modeling.training.optimizer import OptimizerConfig
from components.modeling.training.training_config import SupervisedConfig

torch.set_num_threads(1)  # equal bits are promised for one thread

TOKENIZER = train_tokenizer([], {"sums": ["Add 1 to 2.", "Add 3 to 4."]})
CONFIG = ModelConfig(width=16, layers=2, heads=2, mlp_width=24)
POLICY = new_policy(CONFIG, tokenizer=TOKENIZER, seed=0)
TRAINER = build_trainer(POLICY, OptimizerConfig(), total_steps=1)
TOKEN = st.integers(0, len(TOKENIZER) - 1)


@st.composite
def examples(draw: st.DrawFn) -> Example:
    tokens = draw(st.lists(TOKEN, min_size=2, max_size=12))
    mask = draw(st.lists(st.booleans(), min_size=len(tokens), max_size=len(tokens)))
    mask[-1] = True
    weight = draw(st.sampled_from([0.5, 1.0, 2.0]))
    return Example(tokens, mask, domain=draw(st.sampled_from("ab")), weight=weight)


class Recorder:
    """Hooks that remember; `checkpoint` writes into numbered folders."""

    def __init__(self, folder: Path, stop_after: int | None = None) -> None:
        self.folder, self.stop_after = folder, stop_after
        self.rows: list[dict[str, float]] = []
        self.saved: list[int] = []

    def progress(self, done: int, total: int, **metrics: float) -> None:
        assert 0 < done <= total

    def log(self, step: int, **metrics: float) -> None:
        self.rows.append({"step": step, **metrics})

    def checkpoint_due(self, minutes: float | None) -> bool:
        return False

    def checkpoint(self, step: int, write: Write) -> None:
        path = self.folder / str(step)
        path.mkdir(parents=True)
        if (finish := write(path)) is not None:
            finish()
        self.saved.append(step)
        if self.stop_after == step:
            raise KeyboardInterrupt


def gradients(policy) -> list[torch.Tensor]:
    found = [p.grad.clone() for p in policy.module.parameters()]
    policy.module.zero_grad()
    return found


def demonstrations(count: int) -> list[Example]:
    rows = [
        {"prompt": f"Add {i % 7} to {i % 5}.", "response": f"{i % 7 + i % 5}", "domain": "ab"[i % 2]}
        for i in range(count)
    ]
    return examples_from_rows(TOKENIZER, rows)


def test_loss_is_the_cross_entropy_of_transformers_over_masked_targets(tmp_path: Path) -> None:
    POLICY.save(tmp_path)
    model = AutoModelForCausalLM.from_pretrained(tmp_path)
    batch = [
        Example([5, 9, 12, 1], [False, False, True, True], domain="a"),
        Example([7, 8, 30, 31, 32, 1], [False, True, False, True, False, True], domain="b", weight=2.0),
    ]
    total, count = 0.0, 0.0
    for example in batch:
        with torch.no_grad():
            logits = model(torch.tensor([example.tokens])).logits[0]
        for position, target in enumerate(example.tokens[1:]):
            if example.loss_mask[position + 1]:
                total -= example.weight * logits[position].double().log_softmax(-1)[target].item()
                count += example.weight
    result = evaluate_loss(POLICY, batch, max_tokens=100)
    assert count == 8
    assert result.loss == pytest.approx(total / count, rel=1e-5)
    assert result.num_targets == 5
    assert result.loss == pytest.approx((2 * result.by_domain["a"] + 6 * result.by_domain["b"]) / 8)


@given(batch=st.lists(examples(), min_size=1, max_size=6), budget=st.integers(1, 40))
@settings(max_examples=25, deadline=None)
def test_how_a_batch_is_packed_changes_neither_loss_nor_gradient(batch: list[Example], budget: int) -> None:
    whole = accumulate_gradients(TRAINER, batch, max_tokens=10_000)
    expected = gradients(POLICY)
    cut = accumulate_gradients(TRAINER, batch[::-1], max_tokens=budget)
    assert cut.loss == pytest.approx(whole.loss, rel=1e-5)
    assert cut.num_targets == whole.num_targets
    for got, want in zip(gradients(POLICY), expected, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-3, atol=1e-5)


def test_what_is_not_masked_in_has_no_influence() -> None:
    masked = Example([5, 9, 12, 1], [True, False, True, False])  # the first token is never a target
    result = evaluate_loss(POLICY, [masked], max_tokens=100)
    alone = evaluate_loss(POLICY, [Example([5, 9, 12], [False, False, True])], max_tokens=100)
    assert result.num_targets == 1
    assert result.loss == pytest.approx(alone.loss, rel=1e-5)


def train(folder: Path, seed: int = 4, stop_after: int | None = None, resume: Path | None = None, **more):
    policy = new_policy(CONFIG, tokenizer=TOKENIZER, seed=1)
    config = SupervisedConfig(
        **{
            "steps": 10,
            "batch_size": 6,
            "checkpoint_every": 3,
            "optimizer": OptimizerConfig(name="muon", peak_learning_rate=0.01, schedule="cosine"),
            **more,
        }
    )
    hooks = Recorder(folder, stop_after)
    try:
        summary = fit(policy, demonstrations(40), config, hooks, seed=seed, resume=resume)
    except KeyboardInterrupt:
        summary = None
    return policy, hooks, summary


def test_training_lowers_the_loss_and_tells_what_it_did(tmp_path: Path) -> None:
    _, hooks, summary = train(tmp_path, steps=30)
    assert hooks.rows[-1]["loss"] < 0.5 * hooks.rows[0]["loss"]
    assert [row["step"] for row in hooks.rows] == list(range(1, 31))
    assert set(hooks.rows[0]) == {
        *("step", "loss", "learning_rate", "grad_norm", "num_targets", "epoch", "loss_a", "loss_b")
    }
    assert summary.steps == 30
    assert summary.num_examples == 40
    assert summary.epochs == pytest.approx(4.5)
    assert summary.loss == hooks.rows[-1]["loss"]
    assert summary.num_targets == hooks.rows[-1]["num_targets"]
    assert hooks.saved == [3, 6, 9, 12, 15, 18, 21, 24, 27]  # not after the last step


def test_a_run_resumed_from_any_checkpoint_equals_the_straight_run_bit_for_bit(tmp_path: Path) -> None:
    straight, rows, summary = train(tmp_path / "straight")
    for step in (3, 6, 9):
        _, before, _ = train(tmp_path / f"stopped-{step}", stop_after=step)
        resumed, after, again = train(tmp_path / f"resumed-{step}", resume=tmp_path / f"stopped-{step}" / str(step))
        assert before.rows + after.rows == rows.rows
        assert again == summary
        expected, got = straight.state(), resumed.state()
        assert all(torch.equal(expected[name], got[name]) for name in expected)


def test_epochs_are_rounded_up_to_whole_steps(tmp_path: Path) -> None:
    _, _, summary = train(tmp_path, steps=None, epochs=1.0)
    assert summary.steps == 7  # 40 examples in batches of 6


def test_history_has_every_nth_step_and_the_last(tmp_path: Path) -> None:
    _, hooks, _ = train(tmp_path, log_every=4)
    assert [row["step"] for row in hooks.rows] == [4, 8, 10]


def test_overlong_examples_are_left_out_and_counted(tmp_path: Path) -> None:
    policy = new_policy(CONFIG, tokenizer=TOKENIZER, seed=1)
    batch = [*demonstrations(3), Example([5] * 50, [True] * 50)]
    config = SupervisedConfig(steps=1, max_tokens=20)
    assert fit(policy, batch, config, Recorder(tmp_path), seed=0).num_overlong == 1
    with pytest.raises(InputError, match=r"none of 4 examples has at most 3 tokens \(max_tokens\)"):
        fit(policy, batch, SupervisedConfig(steps=1, max_tokens=3), Recorder(tmp_path), seed=0)


def test_padding_avoided_is_what_rectangles_would_have_wasted(tmp_path: Path) -> None:
    policy = new_policy(CONFIG, tokenizer=TOKENIZER, seed=1)
    batch = [Example([5] * length, [True] * length) for length in (3, 5)]
    summary = fit(policy, batch, SupervisedConfig(steps=3, batch_size=2), Recorder(tmp_path), seed=0)
    assert summary.padding_avoided == pytest.approx(2 / 10)


def test_rows_of_all_kinds_become_examples() -> None:
    rows = [
        {"prompt": "Add 1 to 2.", "response": "3", "domain": "sums"},
        {"text": "ab"},
    ]
    pair, text = examples_from_rows(TOKENIZER, rows)
    assert (pair.domain, pair.num_targets, text.num_targets) == ("sums", 2, 2)
    assert examples_from_rows(TOKENIZER, rows[:1], loss_on="all")[0].num_targets == len(pair.tokens) - 1
    with pytest.raises(InputError, match=r"row 'x7'.*has answer, id.*'prompt' and 'response'"):
        examples_from_rows(TOKENIZER, [{"id": "x7", "answer": "3"}])
    with pytest.raises(InputError, match="no tokenizer"):
        examples_from_rows(None, rows)


@given(length=st.integers(2, 40), window=st.integers(2, 12))
def test_splitting_keeps_every_target_once(length: int, window: int) -> None:
    example = Example(list(range(length)), [True] * length)
    parts = split_long([example], window)
    assert all(2 <= len(part.tokens) <= window for part in parts)
    assert [token for part in parts for token in part.tokens[1:]] == list(range(1, length))


def test_steps_and_epochs_exclude_each_other() -> None:
    with pytest.raises(ValueError, match="exactly one of steps and epochs"):
        SupervisedConfig(steps=2, epochs=1.0)
    with pytest.raises(ValueError, match="exactly one of steps and epochs"):
        SupervisedConfig()
