"""What reading a policy's states costs beside a GRPO step: features of its responses, and a reserved token behind them.

Each step of the testbed's policy (32 prompts, 8 responses each) is followed by both readings of that step's responses.
Each counts as a share of its own step's processor time; the median over the steps is the figure. A pass that scores the
same responses runs beside them.

Run as a script for JSON: `python -m tests.benchmarks.bench_states --json out.json`.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from components.modeling.loading.load import load_policy
from components.modeling.text.prompting import encode_prompts
from components.rl.batch.batch import Batch, Prompt
from components.rl.run import build_loop
from components.rl.step.scoring import frozen_logprobs
from components.rl.step.states import reserved_logprobs, response_features
from tests.benchmarks.bench_rl import WARM_UP, grpo, make_items, make_start
from tests.benchmarks.script import run_script

MAX_TOKENS = 16384


def seconds(work: Callable[[], object]) -> float:
    """Return the processor time of a call."""
    began = time.process_time()
    work()
    return time.process_time() - began


def compare(*, steps: int, start_steps: int = 150) -> dict[str, Any]:
    """Return medians of processor seconds, and of each reading's share of its step."""
    torch.set_num_threads(1)
    items = make_items(512, seed=0)
    with tempfile.TemporaryDirectory() as folder:
        start = Path(folder)
        tokenizer = make_start(start, items, start_steps).tokenizer
        tokens = encode_prompts(tokenizer, [item.prompt for item in items])
        pool = [Prompt(item, tuple(ids)) for item, ids in zip(items, tokens, strict=True)]
        loop = build_loop(grpo(WARM_UP + steps, start_kl_every=0), load_policy(start), pool, start=start, seed=0)
        seen: list[Batch] = []
        gather = loop._gather
        loop._gather = lambda collector: seen.append(gather(collector)) or seen[-1]  # type: ignore[method-assign, func-returns-value]
        rows: list[tuple[float, ...]] = []
        for _ in range(WARM_UP + steps):
            step = seconds(loop.step)
            batch, policies = seen[-1], loop.policies
            features = seconds(partial(response_features, policies.start, batch, max_tokens=MAX_TOKENS))
            behind = seconds(partial(reserved_logprobs, policies.trained, batch, 2, max_tokens=MAX_TOKENS))
            most = {"temperature": 1.0, "max_tokens": MAX_TOKENS}
            scoring = seconds(partial(frozen_logprobs, policies.trained, batch, **most))
            rows.append((step, features, behind, scoring))
    rows = rows[WARM_UP:]
    medians = [statistics.median(column) for column in zip(*rows, strict=True)]
    return {
        "steps": steps,
        "responses": seen[-1].num_responses,
        "tokens of a response": round(statistics.fmean(batch.num_tokens / batch.num_responses for batch in seen), 1),
        "cpu seconds, step": round(medians[0], 4),
        "cpu seconds, features": round(medians[1], 4),
        "cpu seconds, reserved token": round(medians[2], 4),
        "cpu seconds, scoring": round(medians[3], 4),
        "share of the step, features": round(statistics.median(row[1] / row[0] for row in rows), 4),
        "share of the step, reserved token": round(statistics.median(row[2] / row[0] for row in rows), 4),
    }


@pytest.mark.benchmark
def test_features_cost_no_more_than_a_pass_that_scores() -> None:
    """At this size, where a step is little more than four forward passes, that is more than a tenth of it."""
    result = compare(steps=20)
    assert result["cpu seconds, features"] < 1.25 * result["cpu seconds, scoring"], result


if __name__ == "__main__":
    run_script(__doc__, compare, steps=20)
