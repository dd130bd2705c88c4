"""Evaluation that streams its prompts against one in blocks of 64 items: same model, items and random numbers.

Run as a script for the figures: `python -m tests.benchmarks.bench_evaluation --json out.json`. Repeats are interleaved.

In blocks, as stages once measured, 64 items are drawn to their last response before the next are begun, and the policy
scores an engine's responses for their entropies. Streamed, blocks follow from the memory of a draw, an engine that is
drawing gets the next ones before it runs dry, and at temperature 1 no pass of the policy is made.

Two samplers. The native one draws in this process, so that the ratio of CPU seconds is that of the whole measurement.
The engine is a stand-in in its own process that keeps slots full as vLLM does: each step gives a token to every row in
a slot, takes its time however few those are, and responses end at many lengths, one in four of them late. Its ratio of
`steps` holds on any machine; `own CPU s` are this process's, for scoring and verifying; `wall` is with both.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from components.measure import sampling as measured
from components.measure.sampling import sample_and_verify
from components.modeling.generation.choose import MAX_ROWS
from components.modeling.generation.engine.engine_sampler import EngineSampler
from components.modeling.generation.engine.frames import Arrays, Header
from components.modeling.generation.sampler import NativeSampler, Sampler
from components.modeling.generation.sampling_config import SamplingConfig
from components.tasks.item import Item
from tests.benchmarks.bench_rl import make_items, make_start
from tests.benchmarks.script import run_script
from tests.modeling.generation.engines import engine_process
from tests.modeling.generation.plain_engine import TOKEN, PlainEngine

ENGINE = "tests.benchmarks.bench_evaluation:SlotEngine"
BLOCK, SAMPLES, LONGEST = 64, 4, 64
STEP_SECONDS = 0.002
"""Of one step of the stand-in: about what a small model takes on a GPU, for one row or for all."""


class SlotEngine(PlainEngine):
    """Keeps MAX_ROWS slots full with rows of all draws; writes the number of its steps into the file `told`."""

    def start(self, folder: str, options: dict[str, Any]) -> Header:
        """Begin with empty slots."""
        self.told, self.steps = Path(options["told"]), 0
        self.waiting: deque[tuple[int, int, int]] = deque()
        self.active: list[tuple[int, int, int]] = []
        """Draw, row and the step at which it has its last token."""
        self.draws: deque[tuple[int, np.ndarray[Any, Any], list[int]]] = deque()
        """Number, lengths of its rows, and in a list how many of them are still to come."""
        self.begun = 0
        return super().start(folder, options)

    def submit(self, settings: Header, arrays: Arrays) -> None:
        """Put a draw's rows behind those that wait."""
        lengths = np.concatenate(
            [_lengths(*row) for row in zip(arrays["counts"], arrays["limits"], arrays["seeds"], strict=True)]
        )
        self.draws.append((self.begun, lengths, [len(lengths)]))
        self.waiting += [(self.begun, row, int(length)) for row, length in enumerate(lengths)]
        self.begun += 1

    def advance(self) -> Arrays | None:
        """Give one token to every row in a slot."""
        while self.waiting and len(self.active) < MAX_ROWS:
            draw, row, length = self.waiting.popleft()
            self.active.append((draw, row, self.steps + length))
        time.sleep(STEP_SECONDS)
        self.steps += 1
        open_draws = {number: left for number, _, left in self.draws}
        for draw, _, last in self.active:
            open_draws[draw][0] -= last == self.steps
        self.active = [row for row in self.active if row[2] > self.steps]
        _, lengths, left = self.draws[0]
        if left[0]:
            return None
        self.draws.popleft()
        self.told.write_text(str(self.steps))
        total = int(lengths.sum())
        return {
            "tokens": np.full(total, TOKEN, np.int32),
            "lengths": lengths.astype(np.int32),
            "logprobs": np.full(total, -0.5, np.float32),
            "finished": np.ones(len(lengths), bool),
        }


def _lengths(count: int, limit: int, seed: int) -> np.ndarray[Any, Any]:
    """Return lengths of `count` responses, the same for each seed: most are short, one in four may be long."""
    rng = np.random.default_rng(int(seed) & (2**63 - 1))
    short = rng.geometric(1 / 15, size=count)
    return np.where(rng.random(count) < 0.25, rng.integers(limit // 2, limit + 1, size=count), short).clip(1, limit)


class Drained(EngineSampler):
    """Begins nothing before the last draw has ended."""

    @property
    def rows_ahead(self) -> int:
        """Nothing."""
        return 0


def in_blocks(sampler: Sampler, items: list[Item], config: SamplingConfig) -> None:
    """Measure as stages once did."""
    small = config.model_copy(update={"max_batch_tokens": BLOCK * SAMPLES * LONGEST})

    def scored(sampler: Sampler, asked: Any, samples: Any) -> Any:
        if sampler.is_policy:
            return samples
        return sampler.scored(asked.contexts, samples, temperature=asked.config.temperature)

    with patch.object(measured, "_with_entropies", scored):
        sample_and_verify(sampler, items, small, seed=0)


def streamed(sampler: Sampler, items: list[Item], config: SamplingConfig) -> None:
    """Measure as stages do."""
    sample_and_verify(sampler, items, config, seed=0)


def compare(*, items: int, repeats: int, start_steps: int) -> dict[str, Any]:
    """Time both ways with both samplers, interleaved, after one round each."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        policy = make_start(Path(folder) / "model", make_items(2000, seed=2), start_steps)
        asked = make_items(items, seed=1)
        config = SamplingConfig(num_samples=SAMPLES, max_new_tokens=LONGEST)
        found: dict[str, Any] = {
            "items": items,
            "native": _compared(
                repeats,
                {
                    "blocks": lambda: in_blocks(NativeSampler(policy), asked, config),
                    "streamed": lambda: streamed(NativeSampler(policy), asked, config),
                },
            ),
        }
        told = {name: Path(folder) / name for name in ("blocks", "streamed")}
        kinds: dict[str, type[EngineSampler]] = {"blocks": Drained, "streamed": EngineSampler}
        samplers = {
            name: stack.enter_context(
                kinds[name](policy, lambda: engine_process(ENGINE), {"told": str(told[name]), "max_rows": MAX_ROWS})
            )
            for name in told
        }
        ways = {
            "blocks": lambda: in_blocks(samplers["blocks"], asked, config),
            "streamed": lambda: streamed(samplers["streamed"], asked, config),
        }
        found["engine"] = _compared(repeats, ways)
        steps = {name: int(path.read_text()) / (repeats + 1) for name, path in told.items()}
        return found | {"engine's steps": steps, "steps, blocks over streamed": _ratio(steps)}


def _compared(repeats: int, ways: dict[str, Callable[[], None]]) -> dict[str, Any]:
    """Return the medians of wall and own CPU seconds of both ways, and their ratios."""
    for work in ways.values():
        work()
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for _ in range(repeats):
        for name, work in ways.items():
            wall, cpu = time.perf_counter(), time.process_time()
            work()
            times[name].append((time.perf_counter() - wall, time.process_time() - cpu))
    found: dict[str, Any] = {}
    for kind, index in (("wall s", 0), ("own CPU s", 1)):
        found[kind] = {name: round(statistics.median(one[index] for one in times[name]), 3) for name in ways}
        ratios = [first[index] / other[index] for first, other in zip(times["blocks"], times["streamed"], strict=True)]
        found[f"{kind}, blocks over streamed"] = round(statistics.median(ratios), 2)
    return found


def _ratio(values: dict[str, float]) -> float:
    return round(values["blocks"] / values["streamed"], 2)


if __name__ == "__main__":
    run_script(__doc__, compare, items=512, repeats=3, start_steps=60)
