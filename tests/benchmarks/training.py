"""What the benchmarks of supervised training share: the testbed's model and rows, our trainer, and the comparison."""

from __future__ import annotations

import random
import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from components.modeling.loading.load import load_policy, new_policy
from components.modeling.models.model_config import ModelConfig
from components.modeling.models.policy import Policy
from components.modeling.supervised.examples import Example, examples_from_rows
from components.modeling.supervised.trainer import fit
from components.modeling.text.tokenizer import train_tokenizer
from components.modeling.training.optimizer import OptimizerConfig
from components.modeling.training.training_config import SupervisedConfig
from components.runtime.system.products import in_use
from tests.benchmarks.bench_generation import Clock
from tests.benchmarks.floor import TRAINED, Floor

BATCH = 64
LEARNING_RATE = 1e-3
IGNORED = -100
"""Label of a token that is no target."""
WORDS = ("stone", "river", "tiger", "cat", "moon", "planet", "sun", "garden", "ox", "silver", "window", "tree")


@dataclass(frozen=True)
class Timing:
    """One timed training."""

    seconds: float
    cpu_seconds: float
    first_loss: float
    last_loss: float


def beside(ours: Sequence[Timing], theirs: Sequence[Timing]) -> dict[str, Any]:
    """Return how many times our CPU seconds a peer took, round by round, and its losses."""
    ratios = [other.cpu_seconds / own.cpu_seconds for own, other in zip(ours, theirs, strict=True)]
    return {
        "cpu_ratio": [round(ratio, 3) for ratio in ratios],
        "cpu_ratio_median": round(statistics.median(ratios), 3),
        "first_loss": theirs[0].first_loss,
        "last_loss": theirs[0].last_loss,
    }


class Quiet:
    """Hooks that keep the losses."""

    def __init__(self) -> None:
        self.losses: list[float] = []

    def progress(self, done: int, total: int, **metrics: float) -> None:
        """Show nothing."""

    def log(self, step: int, **metrics: float) -> None:
        """Keep the loss."""
        self.losses.append(metrics["loss"])

    def checkpoint(self, step: int, write: Callable[[Path], None]) -> None:
        """Keep nothing."""


def demonstrations(count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Two domains of the testbed's shape: worked sums of 2 to 4 terms, and words to be spelled backward."""
    rng = random.Random(seed)
    rows = []
    for index in range(count):
        if index % 3 == 2:
            word = rng.choice(WORDS)
            prompt, response = f"Spell this word backward: {word}", f"<answer>{word[::-1]}"
        else:
            terms = [rng.randint(1, 9) for _ in range(rng.randint(2, 4))]
            prompt = f"State the final answer to the following problem: {' + '.join(map(str, terms))} ="
            steps = [f"{sum(terms[:i])}+{terms[i]}={sum(terms[: i + 1])}" for i in range(1, len(terms))]
            response = f"<think>{' '.join(steps)}<answer>{sum(terms)}"
        rows.append({"prompt": prompt, "response": response, "domain": str(index % 3 == 2)})
    return rows


def make_base(folder: Path, rows: Sequence[dict[str, Any]]) -> Policy:
    """Write the testbed's model (440,000 parameters), untrained."""
    prompts = {name: [row["prompt"] for row in rows if row["domain"] == name] for name in ("True", "False")}
    policy = new_policy(ModelConfig(), tokenizer=train_tokenizer([], prompts), seed=0)
    policy.save(folder)
    return policy


def time_ours(base: Path, examples: Sequence[Example], steps: int) -> Timing:
    """Train with the trainer of the sft stage."""
    policy, hooks = load_policy(base), Quiet()
    optimizer = OptimizerConfig(peak_learning_rate=LEARNING_RATE, betas=(0.9, 0.999), clip_norm=1.0)
    config = SupervisedConfig(steps=steps, batch_size=BATCH, optimizer=optimizer, checkpoint_every=0)
    clock = Clock()
    fit(policy, examples, config, hooks, seed=0)
    return Timing(*clock.stop(), hooks.losses[0], hooks.losses[-1])


def labels(example: Example) -> list[int]:
    """Return the labels that transformers' trainers take."""
    return [t if target else IGNORED for t, target in zip(example.tokens, example.loss_mask, strict=True)]


def settings(folder: str, steps: int, *, by_length: bool) -> dict[str, Any]:
    """Return the arguments with which transformers' trainers do the same work; batches of like lengths pad less."""
    return {
        "output_dir": folder,
        "max_steps": steps,
        "per_device_train_batch_size": BATCH,
        "learning_rate": LEARNING_RATE,
        "lr_scheduler_type": "constant",
        "train_sampling_strategy": "group_by_length" if by_length else "random",
        "optim": "adamw_torch_fused",
        "max_grad_norm": 1.0,
        "use_cpu": True,
        "logging_steps": 1,
        "report_to": "none",
        "save_strategy": "no",
        "disable_tqdm": True,
        "seed": 0,
    }


def timed(trainer: Any) -> Timing:
    """Train with a trainer of transformers."""
    clock = Clock()
    trainer.train()
    spent = clock.stop()
    losses = [row["loss"] for row in trainer.state.log_history if "loss" in row]
    return Timing(*spent, losses[0], losses[-1])


Timer = Callable[[Path, Sequence[Example], int], Timing]


def compare_with(peers: Mapping[str, Timer], *, steps: int, repeats: int) -> dict[str, Any]:
    """Time ours and each peer, interleaved, after a short warm-up of each; return the figures, a row for each peer."""
    torch.set_num_threads(1)
    rows = demonstrations(BATCH * steps)
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        policy = make_base(base, rows)
        examples = examples_from_rows(policy.tokenizer, rows)
        timers = {"ours": time_ours, **peers}
        for timer in timers.values():
            timer(base, examples[: 2 * BATCH], 2)
        rounds = [{name: timer(base, examples, steps) for name, timer in timers.items()} for _ in range(repeats)]
        ours = [found["ours"] for found in rounds]
        num_tokens = sum(len(example.tokens) for example in examples)
        num_targets = sum(example.num_targets for example in examples)
        floor = Floor.measure()
        least = floor.pass_of(policy, num_tokens, num_targets, TRAINED)
    return {
        "steps": steps,
        "batch": BATCH,
        "tokens": num_tokens,
        "targets": num_targets,
        "products": in_use().record(),
        "ours_tokens_per_second": [round(num_tokens / timing.seconds) for timing in ours],
        "ours_tokens_per_cpu_second": [round(num_tokens / timing.cpu_seconds) for timing in ours],
        "share_of_floor": round(least / statistics.median(timing.cpu_seconds for timing in ours), 3),
        **floor.figures(),
        "first_loss": ours[0].first_loss,
        "last_loss": ours[0].last_loss,
        "peers": {name: _row(ours, [found[name] for found in rounds], num_tokens) for name in peers},
    }


def _row(ours: Sequence[Timing], theirs: Sequence[Timing], num_tokens: int) -> dict[str, Any]:
    """Return what is said of one peer."""
    pairs = list(zip(ours, theirs, strict=True))
    ratios = [b.seconds / a.seconds for a, b in pairs]
    return {
        "tokens_per_second": [round(num_tokens / timing.seconds) for timing in theirs],
        "ratio": [round(ratio, 3) for ratio in ratios],
        "ratio_median": round(statistics.median(ratios), 3),
        "cpu_ratio_median": round(statistics.median(b.cpu_seconds / a.cpu_seconds for a, b in pairs), 3),
        "first_loss": theirs[0].first_loss,
        "last_loss": theirs[0].last_loss,
    }


def assert_at_least(compare: Callable[..., dict[str, Any]], bars: Mapping[str, float]) -> None:
    """The bars, a CPU-second ratio for each peer; all trainers start from one loss and end near each other.

    A peer that groups rows by length begins with other rows: its first loss is near ours, not equal.
    """
    result = compare(steps=20, repeats=3)
    for name, bar in bars.items():
        row = result["peers"][name]
        assert row["first_loss"] == pytest.approx(result["first_loss"], rel=0.1 if name.endswith("by_length") else 0.02)
        assert row["last_loss"] == pytest.approx(result["last_loss"], rel=0.2)
        assert row["cpu_ratio_median"] >= bar, result
