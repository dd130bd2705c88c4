"""Speed of DPO against TRL's DPOTrainer: same model, pairs, batch, updates and optimiser; one thread.

Run as a script for the table and JSON: `python -m tests.benchmarks.bench_preference --json out.json`. Repeats are
interleaved, so that all meet the same machine. What is timed is the training call; tokenisation, loading and saving are
outside. Ours includes what the reference says of all pairs, which it computes once. TRL has two rows: its default, that
asks the reference in every step, and `precompute_ref_log_probs`, which asks it once in the constructor, before the
clock starts. TRL pads, and computes each prompt for both sides.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from components.modeling.loading.load import load_policy
from components.preference.comparisons import Comparison, encoded
from components.preference.params import PreferenceParams
from components.preference.reading import Candidates
from components.preference.training import Preferences, fit_preferences
from tests.benchmarks.bench_generation import Clock
from tests.benchmarks.script import run_script
from tests.benchmarks.training import BATCH, Quiet, Timing, beside, demonstrations, make_base, settings, timed

LEARNING_RATE = 1e-4
Row = dict[str, Any]


def pairs(count: int) -> list[Row]:
    """Return the testbed's demonstrations, each against another one's response."""
    rows = demonstrations(count)
    return [
        {"prompt": row["prompt"], "chosen": row["response"], "rejected": f"{other['response']}0"}
        for row, other in zip(rows, [*rows[1:], rows[0]], strict=True)
    ]


def time_ours(base: Path, rows: Sequence[Row], steps: int) -> Timing:
    """Train with the trainer of the preference stage."""
    policy, hooks = load_policy(base), Quiet()
    optimizer = {"peak_learning_rate": LEARNING_RATE, "betas": [0.9, 0.999]}
    given = {"steps": steps, "batch_size": BATCH, "optimizer": optimizer, "checkpoint_every": 0}
    params = PreferenceParams.model_validate(given)
    compared = Preferences(params.preference_loss.resolve(), encoded_pairs(base, rows), (), None)
    clock = Clock()
    fit_preferences(policy, (), params, hooks, preferences=compared, seed=0)  # type: ignore[arg-type]
    return Timing(*clock.stop(), hooks.losses[0], hooks.losses[-1])


def encoded_pairs(base: Path, rows: Sequence[Row]) -> list[Comparison]:
    """Return the tokens of pairs."""
    found = [
        Candidates(task=row["prompt"], responses=(row["chosen"], row["rejected"]), scores=(1.0, 0.0)) for row in rows
    ]
    return encoded(load_policy(base), found)


def time_trl(base: Path, rows: Sequence[Row], steps: int, *, precompute: bool = False) -> Timing:
    """Train with TRL's DPOTrainer on the same pairs."""
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl import DPOConfig, DPOTrainer

    roles = {"prompt": "user", "chosen": "assistant", "rejected": "assistant"}
    talks = [{name: [{"role": role, "content": row[name]}] for name, role in roles.items()} for row in rows]
    with tempfile.TemporaryDirectory() as folder:
        given = settings(folder, steps, by_length=False) | {"learning_rate": LEARNING_RATE}
        trainer = DPOTrainer(
            model=AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32),
            ref_model=AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32),
            processing_class=AutoTokenizer.from_pretrained(base),
            args=DPOConfig(**given, bf16=False, gradient_checkpointing=False, precompute_ref_log_probs=precompute),
            train_dataset=Dataset.from_list(talks),
        )
        return timed(trainer)


TIMERS: dict[str, Callable[[Path, Sequence[Row], int], Timing]] = {
    "ours": time_ours,
    "trl": time_trl,
    "trl_precomputed": partial(time_trl, precompute=True),
}


def compare(*, steps: int, repeats: int) -> dict[str, Any]:
    """Return the figures, a row for each of TRL's settings."""
    torch.set_num_threads(1)
    rows = pairs(BATCH * steps)
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        make_base(base, demonstrations(BATCH * steps))
        for timer in TIMERS.values():
            timer(base, rows[: 2 * BATCH], 2)
        rounds = [{name: timer(base, rows, steps) for name, timer in TIMERS.items()} for _ in range(repeats)]
        tokens = sum(one.num_tokens for one in encoded_pairs(base, rows))
    ours = [found["ours"] for found in rounds]
    figures: dict[str, Any] = {
        "steps": steps,
        "batch": BATCH,
        "tokens": tokens,
        "ours_pairs_per_cpu_second": [round(len(rows) / one.cpu_seconds, 1) for one in ours],
        "first_loss": ours[0].first_loss,
        "last_loss": ours[0].last_loss,
        "peers": {},
    }
    for name in ("trl", "trl_precomputed"):
        theirs = [found[name] for found in rounds]
        figures["peers"][name] = {
            "pairs_per_cpu_second": [round(len(rows) / one.cpu_seconds, 1) for one in theirs],
            **beside(ours, theirs),
        }
    return figures


@pytest.mark.benchmark
def test_dpo_is_faster_than_trls() -> None:
    result = compare(steps=6, repeats=3)
    for name, bar in {"trl": 2.0, "trl_precomputed": 1.5}.items():
        row = result["peers"][name]
        assert row["first_loss"] == pytest.approx(result["first_loss"], rel=1e-3)
        assert row["last_loss"] == pytest.approx(result["last_loss"], rel=0.2)
        assert row["cpu_ratio_median"] >= bar, result


if __name__ == "__main__":
    run_script(__doc__, compare, steps=6, repeats=3)
