"""Speed of the trainer against plain transformers.Trainer: same model, rows, batch, updates and optimiser; one thread.

Run as a script for the figures: `python -m tests.benchmarks.bench_trainer --json out.json`. Repeats are interleaved,
so that both meet the same machine, and both are timed inside the training call only. Ratios are by wall clock and by
CPU seconds: the latter are what a busy machine leaves standing, and what the bar is about. Trainer has
two rows: batches in random order, as ours are, and batches of like lengths, which pad less and see the rows in another
order. It computes logits at every position; that is its way, not a setting. bench_sft compares with TRL's.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Tensor

from components.modeling.supervised.examples import Example
from tests.benchmarks.script import run_script
from tests.benchmarks.training import IGNORED, Timing, assert_at_least, compare_with, labels, settings, timed


def time_transformers(base: Path, examples: Sequence[Example], steps: int, *, by_length: bool = False) -> Timing:
    """Train with transformers.Trainer on the same token ids and masks."""
    from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

    rows = [{"input_ids": list(example.tokens), "labels": labels(example)} for example in examples]
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(**settings(folder, steps, by_length=by_length), remove_unused_columns=False)
        model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
        return timed(Trainer(model=model, args=arguments, train_dataset=rows, data_collator=_padded))


def _padded(rows: Sequence[Mapping[str, list[int]]]) -> dict[str, Tensor]:
    """Return a batch, padded on the right to its longest row."""
    width = max(len(row["input_ids"]) for row in rows)

    def column(name: str, fill: int) -> Tensor:
        return torch.tensor([row[name] + [fill] * (width - len(row[name])) for row in rows])

    mask = torch.tensor([[1] * len(row["input_ids"]) + [0] * (width - len(row["input_ids"])) for row in rows])
    return {"input_ids": column("input_ids", 0), "labels": column("labels", IGNORED), "attention_mask": mask}


compare = partial(
    compare_with,
    {"transformers": time_transformers, "transformers_by_length": partial(time_transformers, by_length=True)},
)


@pytest.mark.benchmark
def test_training_is_faster_than_transformers_trainer() -> None:
    assert_at_least(compare, {"transformers": 2.0, "transformers_by_length": 1.3})


if __name__ == "__main__":
    run_script(__doc__, compare, steps=40, repeats=5)
