"""What a reward model adds to a step of rl, beside its own forward pass over the step's texts; one thread.

Run as a script for JSON: `python -m tests.benchmarks.bench_scorer --json out.json`. Two loops take the same steps in
turn, with a scorer as a reward of weight 0 and without one, so that they draw and learn the same. The forward pass is
timed by itself, over each text whole, of tokens that are known. The step renders and tokenises, too, but computes the
prompt of a group once. The reward model is as large as the policy. Figures are CPU seconds.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from components.modeling.loading.load import load_policy
from components.modeling.packing.batching import micro_batches
from components.modeling.scorers.layout import Layout
from components.modeling.scorers.network import RewardNetwork, packed_readings
from components.modeling.scorers.reading import read_responses
from components.modeling.serving.models import Asked
from components.modeling.serving.reward_model import MAX_TOKENS, LocalRewardModel
from components.modeling.text.prompting import encode_prompts
from components.rl.batch.batch import Prompt
from components.rl.run import build_loop
from components.rl.step.loop import Loop
from tests.benchmarks.bench_rl import GROUP, PROMPTS, WARM_UP, grpo, make_items, make_start
from tests.benchmarks.script import run_script

SCORED = ["verifier", {"name": "scorer", "weight": 0.0}]


class Listening(LocalRewardModel):
    """Remembers what it was asked last."""

    asked: Sequence[tuple[Asked, str]] = ()

    def rate(self, pairs: Sequence[tuple[Asked, str]]) -> list[float | None]:
        """Rate as a reward model does."""
        self.asked = pairs
        return super().rate(pairs)


def make_scorer(start: Path, folder: Path) -> Listening:
    """Write a reward model of the policy's size, and open it."""
    policy = load_policy(start)
    RewardNetwork(policy, Layout(), seed=5)
    policy.save(folder)
    return Listening("scorer.model", folder, device="cpu", dtype="float32")


def opened(start: Path, items: Sequence[Any], steps: int, scorer: Listening | None) -> Loop:
    """Return a loop at its first step."""
    policy = load_policy(start)
    tokens = encode_prompts(policy.tokenizer, [item.prompt for item in items])
    pool = [Prompt(item, tuple(ids)) for item, ids in zip(items, tokens, strict=True)]
    params = grpo(steps + WARM_UP, **({"rewards": SCORED} if scorer else {}))
    return build_loop(params, policy, pool, start=start, seed=0, further={"scorers": [scorer] if scorer else []})


def forward_pass(scorer: Listening) -> Callable[[], None]:
    """Return a pass over what the scorer was asked last, each distinct text once, whose tokens are known."""
    network = scorer._network
    readings = read_responses(network.policy, list(dict.fromkeys(scorer.asked)))
    parts = micro_batches([len(one.tokens) for one in readings], MAX_TOKENS)

    def run() -> None:
        with torch.no_grad():
            for part in parts:
                network.outputs(packed_readings([[readings[at]] for at in part], "cpu"))

    return run


def spent(work: Callable[[], object]) -> float:
    """Return the CPU seconds of one call."""
    began = time.process_time()
    work()
    return time.process_time() - began


def compare(*, steps: int) -> dict[str, Any]:
    """Return CPU seconds of each step with and without a scorer, and of its forward pass."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        start = Path(folder) / "start"
        items = make_items(PROMPTS * (steps + WARM_UP), seed=1)
        make_start(start, items, steps=60)
        scorer = make_scorer(start, Path(folder) / "scorer")
        without, with_it = opened(start, items, steps, None), opened(start, items, steps, scorer)
        for _ in range(WARM_UP):
            assert without.step()["reward_mean"] == with_it.step()["reward_mean"], "they draw the same"
        rows = [(spent(without.step), spent(with_it.step), spent(forward_pass(scorer))) for _ in range(steps)]
    added = [more - less for less, more, _ in rows]
    return {
        "steps": steps,
        "responses": PROMPTS * GROUP,
        "step_seconds": [round(less, 4) for less, _, _ in rows],
        "added_seconds": [round(one, 4) for one in added],
        "forward_seconds": [round(one, 4) for _, _, one in rows],
        "added_over_forward": round(statistics.median(added) / statistics.median(one for _, _, one in rows), 3),
    }


@pytest.mark.benchmark
def test_a_scorer_adds_at_most_its_own_forward_pass() -> None:
    result = compare(steps=9)
    assert result["added_over_forward"] <= 1.0, result


if __name__ == "__main__":
    run_script(__doc__, compare, steps=9)
