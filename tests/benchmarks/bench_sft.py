"""Speed of supervised training against TRL's SFTTrainer: same model, rows, batch, updates and optimiser;
one thread.

Run as a script for the table and JSON: `python -m tests.benchmarks.bench_sft --json out.json`. Repeats are
interleaved, so that both meet the same machine. Both are timed inside the training call only: tokenisation,
loading and saving are outside. Ratios are by wall clock and by CPU seconds: the latter are what a busy machine
leaves standing, and what the bar is about. TRL has two rows: batches in random order, as ours are, and batches of like
lengths, its faster setting on a CPU, which sees the rows in another order. It computes logits at every position, unlike
ours; that is its way, not a setting.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
import torch

from components.modeling.supervised.examples import Example
from tests.benchmarks.script import run_script
from tests.benchmarks.training import Timing, assert_at_least, compare_with, labels, settings, timed


def time_trl(base: Path, examples: Sequence[Example], steps: int, *, by_length: bool = False) -> Timing:
    """Train with TRL's SFTTrainer on the same token ids and masks."""
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl import SFTConfig, SFTTrainer

    rows = {
        "input_ids": [list(example.tokens) for example in examples],
        "labels": [labels(example) for example in examples],
    }
    with tempfile.TemporaryDirectory() as folder:
        config = SFTConfig(
            **settings(folder, steps, by_length=by_length),
            bf16=False,
            activation_checkpointing=False,
            max_length=None,
            dataset_kwargs={"skip_prepare_dataset": True},
        )
        trainer = SFTTrainer(
            model=AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32),
            processing_class=AutoTokenizer.from_pretrained(base),
            args=config,
            train_dataset=Dataset.from_dict(rows),
        )
        return timed(trainer)


compare = partial(compare_with, {"trl": time_trl, "trl_by_length": partial(time_trl, by_length=True)})


@pytest.mark.benchmark
def test_sft_is_at_least_twice_as_fast_as_trl() -> None:
    assert_at_least(compare, {"trl": 2.0, "trl_by_length": 1.5})


if __name__ == "__main__":
    run_script(__doc__, compare, steps=40, repeats=5)
