"""Speed of the trainer against plain transformers.Trainer: same model, rows, batch, updates and optimiser; one thread.

Run as a script for the figures: `python -m tests.benchmarks.bench_trainer --json out.json`. Repeats are interleaved,
so that both meet the same machine, and both are timed inside the training call only. Ratios are by wall clock and by
CPU seconds: the latter are what a busy machine leaves standing, and what the bar is about. Trainer pads each batch to
its longest row and computes logits at every position; that is its way, not a setting. bench_sft compares with TRL's.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from components.modeling.supervised.examples import Example, examples_from_rows
from tests.benchmarks.bench_generation import Clock
from tests.benchmarks.bench_sft import BATCH, LEARNING_RATE, Timing, demonstrations, make_base, matmul_floor, time_ours
from tests.benchmarks.script import run_script

IGNORED = -100
"""Label of a token that is no target."""


def time_transformers(base: Path, examples: Sequence[Example], steps: int) -> Timing:
    """Train with transformers.Trainer on the same token ids and masks."""
    from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

    rows = [
        {
            "input_ids": list(example.tokens),
            "labels": [t if own else IGNORED for t, own in zip(example.tokens, example.loss_mask, strict=True)],
        }
        for example in examples
    ]
    with tempfile.TemporaryDirectory() as folder:
        settings = TrainingArguments(
            output_dir=folder,
            max_steps=steps,
            per_device_train_batch_size=BATCH,
            learning_rate=LEARNING_RATE,
            lr_scheduler_type="constant",
            optim="adamw_torch_fused",
            max_grad_norm=1.0,
            use_cpu=True,
            logging_steps=1,
            report_to="none",
            save_strategy="no",
            disable_tqdm=True,
            remove_unused_columns=False,
            seed=0,
        )
        model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
        trainer = Trainer(model=model, args=settings, train_dataset=rows, data_collator=_padded)
        clock = Clock()
        trainer.train()
        spent = clock.stop()
    losses = [row["loss"] for row in trainer.state.log_history if "loss" in row]
    return Timing(*spent, losses[0], losses[-1])


def _padded(rows: Sequence[Mapping[str, list[int]]]) -> dict[str, Tensor]:
    """Return a batch, padded on the right to its longest row."""
    width = max(len(row["input_ids"]) for row in rows)

    def column(name: str, fill: int) -> Tensor:
        return torch.tensor([row[name] + [fill] * (width - len(row[name])) for row in rows])

    mask = torch.tensor([[1] * len(row["input_ids"]) + [0] * (width - len(row["input_ids"])) for row in rows])
    return {"input_ids": column("input_ids", 0), "labels": column("labels", IGNORED), "attention_mask": mask}


def compare(*, steps: int, repeats: int) -> dict[str, Any]:
    """Time both, interleaved, after a short warm-up of each; return the figures."""
    torch.set_num_threads(1)
    rows = demonstrations(BATCH * steps)
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        policy = make_base(base, rows)
        examples = examples_from_rows(policy.tokenizer, rows)
        num_tokens = sum(len(example.tokens) for example in examples)
        num_targets = sum(example.num_targets for example in examples)
        time_ours(base, examples[: 2 * BATCH], 2)
        time_transformers(base, examples[: 2 * BATCH], 2)
        pairs = [(time_ours(base, examples, steps), time_transformers(base, examples, steps)) for _ in range(repeats)]
        floor = matmul_floor(policy, num_tokens / steps, num_targets / steps, steps)
    ours, theirs = ([pair[side] for pair in pairs] for side in (0, 1))
    ratios = [b.seconds / a.seconds for a, b in pairs]
    return {
        "steps": steps,
        "batch": BATCH,
        "tokens": num_tokens,
        "ours_tokens_per_second": [round(num_tokens / timing.seconds) for timing in ours],
        "transformers_tokens_per_second": [round(num_tokens / timing.seconds) for timing in theirs],
        "ratio": [round(ratio, 3) for ratio in ratios],
        "ratio_median": round(statistics.median(ratios), 3),
        "cpu_ratio_median": round(statistics.median(b.cpu_seconds / a.cpu_seconds for a, b in pairs), 3),
        "matmul_floor_tokens_per_second": round(num_tokens / floor),
        "first_loss": [ours[0].first_loss, theirs[0].first_loss],
        "last_loss": [ours[0].last_loss, theirs[0].last_loss],
    }


@pytest.mark.benchmark
def test_training_is_faster_than_transformers_trainer() -> None:
    """Both start from one loss and end near each other; ours takes at most half the time."""
    result = compare(steps=20, repeats=3)
    assert result["first_loss"][0] == pytest.approx(result["first_loss"][1], rel=0.02)
    assert result["last_loss"][0] == pytest.approx(result["last_loss"][1], rel=0.2)
    assert result["cpu_ratio_median"] >= 2.0, result


if __name__ == "__main__":
    run_script(__doc__, compare, steps=40, repeats=5)
