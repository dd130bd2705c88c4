"""What stage synthesize costs beside the texts it asks for: the stage against the native sampler alone.

Run as a script for the figures: `python -m tests.benchmarks.bench_synthesize --json out.json`. The testbed's model
(440,000 parameters) writes 4 responses to each prompt, generator `rejection` keeps the right ones, and curate's chain
is behind it. The sampler draws as many responses to the same prompts. Both run by turns in this process, on one thread,
and each pair gives a ratio of processor times; the median counts. The target is 1.1. Fewer prompts make it larger: to
load the model and to write the dataset takes 50 ms, a sixth of what 192 prompts take.
"""

from __future__ import annotations

import itertools
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from components.modeling.generation.generate import generate
from components.modeling.generation.sampling_config import SamplingConfig
from components.modeling.loading.load import load_policy
from components.modeling.text.prompting import encode_prompts
from components.synthesize.component import COMPONENT
from tests.benchmarks.bench_rl import MAX_NEW_TOKENS, make_items, make_start
from tests.benchmarks.script import run_script
from tests.support.stage_context import run_stage, write_jsonl

SAMPLES = 4


def compare(*, prompts: int, repeats: int, start_steps: int = 150) -> dict[str, Any]:
    """Return medians of processor seconds, and of their ratio."""
    torch.set_num_threads(1)
    items = list({item.prompt: item for item in make_items(4 * prompts, seed=0)}.values())[:prompts]
    seconds: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_start(folder / "start", items, start_steps)
        rows = write_jsonl(folder / "items", [item.model_dump() for item in items])
        policy = load_policy(folder / "start")
        asked = encode_prompts(policy.tokenizer, [item.prompt for item in items])
        config = SamplingConfig(num_samples=SAMPLES, max_new_tokens=MAX_NEW_TOKENS, temperature=1.0)
        params = {
            "generator": {"name": "rejection", "num_samples": SAMPLES, "max_new_tokens": MAX_NEW_TOKENS},
            "chunk": prompts,
        }
        inputs = {"dataset": [rows], "teachers": [folder / "start"]}
        for number in itertools.count(-1):  # the first pair warms up
            begun = time.process_time()
            generate(policy, asked, config, generator=torch.Generator().manual_seed(number + 1))
            drawn = time.process_time()
            made = run_stage(COMPONENT, folder / f"run{number}", params=params, inputs=inputs, seed=number + 1)
            if number >= 0:
                seconds.append((drawn - begun, time.process_time() - drawn))
            if number == repeats - 1:
                break
    return {
        "prompts": len(items),
        "responses": SAMPLES * len(items),
        "rows": made.metrics["num_rows"],
        "cpu seconds, sampler": round(statistics.median(alone for alone, _ in seconds), 4),
        "cpu seconds, stage": round(statistics.median(stage for _, stage in seconds), 4),
        "ratio": round(statistics.median(stage / alone for alone, stage in seconds), 4),
    }


@pytest.mark.benchmark
def test_making_rows_costs_at_most_a_tenth_beside_the_sampler() -> None:
    result = compare(prompts=768, repeats=5)
    assert result["ratio"] <= 1.1, result


if __name__ == "__main__":
    run_script(__doc__, compare, prompts=768, repeats=5)
