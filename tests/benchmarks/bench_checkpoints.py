"""What checkpoints of a long RL stage cost: bytes, CPU time and share of the run, and whether they grow linearly.

    python -m tests.benchmarks.bench_checkpoints [--steps 5000] [--every 10] [--width 64] [--json FILE]

The stage keeps what RL keeps (a ledger with 32 visits a step, right and browsed responses, 40 logged columns, a small
model with its optimiser) and computes for 20 ms of CPU time a step, far less than any real one: what checkpoints take
is as visible as it can be. It runs three times, with equal work: without checkpoints, as often as the default finds
cheap, and with one every `every` steps. `share` is the CPU time beyond the run without any, by that run's;
`stalled_seconds` is how long the stage waited. Bytes are counted where the store gets them; those of each fifth of the
run say how they grow.
"""

from __future__ import annotations

import os
import tempfile
import time
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from components.contract.component import Component
from components.contract.job import Job
from components.modeling.loading.load import new_policy
from components.modeling.models.model_config import ModelConfig
from components.modeling.text.tokenizer import train_tokenizer
from components.modeling.text.tokenizer_config import TokenizerConfig
from components.modeling.training.build import build_trainer
from components.modeling.training.training_config import OptimizerConfig
from components.modeling.training.training_state import TrainingState, save_training_state
from components.rl.component import COMPONENT
from components.rl.step.ledger import PassRates
from components.rl.step.record import RolloutRecord
from components.rl.step.state import LoopState
from components.runtime.job.progress import Progress
from components.runtime.job.stage import RunningStage
from components.runtime.store import Store, open_store
from tests.benchmarks.script import run_script

STEP_SECONDS, SIZE = 0.02, 192
VISITS, POOL, COLUMNS, RIGHT, MOST_RIGHT = 32, 512, 40, 16, 2048
PARTS = 5
"""Parts of the run whose bytes are compared."""


def compare(steps: int, every: int, width: int) -> dict[str, Any]:
    """Return the figures of the three runs."""
    torch.set_num_threads(1)
    products = _products(STEP_SECONDS)
    with tempfile.TemporaryDirectory() as folder:
        ways = {"none": 0, "paced": None, f"every {every}": every}
        found = {
            name: _run(Path(folder) / str(number), steps, due, _Work(width, products))
            for number, (name, due) in enumerate(ways.items())
        }
    base = found["none"]["cpu_seconds"]
    shares = {
        name: {**figures, "share": round(figures["cpu_seconds"] / base - 1, 4)} for name, figures in found.items()
    }
    return {"steps": steps, "cpu": _cpu_name(), **shares}


def _products(seconds: float) -> int:
    """Return how many products of the stage's matrix take so much CPU time."""
    matrix, tries = torch.randn(SIZE, SIZE), 300
    began = time.process_time()
    for _ in range(tries):
        matrix @ matrix
    return max(1, round(seconds * tries / (time.process_time() - began)))


def _run(folder: Path, steps: int, every: int | None, work: _Work) -> dict[str, Any]:
    store = open_store(str(folder / "store"))
    written = _count_bytes(store)
    stage = _stage(store, folder)
    stalled, count, by_part = 0.0, 0, []
    began, cpu = time.perf_counter(), time.process_time()
    for step in range(1, steps + 1):
        work.step(step)
        stage.log(step, **{f"column_{index}": step / (index + 1) for index in range(COLUMNS)})
        if (every and step % every == 0) or (every is None and stage.checkpoint_due(None)):
            asked = time.perf_counter()
            stage.checkpoint(step, lambda folder: work.write(folder, stage))
            stalled, count = stalled + time.perf_counter() - asked, count + 1
        if step % (steps // PARTS) == 0:
            by_part.append(written[0] - sum(by_part))
    stage.close()
    return {
        "cpu_seconds": round(time.process_time() - cpu, 2),
        "seconds": round(time.perf_counter() - began, 1),
        "checkpoints": count,
        "stalled_seconds": round(stalled, 2),
        "megabytes_written": round(written[0] / 1e6, 1),
        "megabytes_by_fifth": [round(size / 1e6, 1) for size in by_part],
    }


class _Work:
    """A stand-in for RL: real state, real optimiser, and matrix products instead of sampling."""

    def __init__(self, width: int, products: int) -> None:
        tokenizer = train_tokenizer(["abc"], {}, TokenizerConfig(phrases=False))
        config = ModelConfig(width=width, layers=2, heads=2, mlp_width=4 * width)
        self.policy = new_policy(config, tokenizer=tokenizer, seed=0)
        self.trainer = build_trainer(self.policy, OptimizerConfig(), total_steps=1_000_000)
        self.state = LoopState(record=RolloutRecord(browse_samples=16, right_samples=MOST_RIGHT), ledger=PassRates())
        self.matrix, self.products = torch.randn(SIZE, SIZE), products

    def step(self, step: int) -> None:
        """Do a step's work; every weight changes."""
        for _ in range(self.products):
            self.matrix @ self.matrix
        with torch.no_grad():
            for parameter in self.policy.module.parameters():
                parameter.add_(1e-6)
        ledger, record = self.state.ledger, self.state.record
        ledger.step = self.state.step
        for index in range(VISITS):
            prompt = f"prompt-{(step * VISITS + index) % POOL:06d}"
            ledger.add(prompt, "sums", right=3, wrong=5)
            ledger.add_rewards(prompt, "sums", [0.5, 1.0])
            ledger.set_advantage(prompt, "sums", 0.25)
        rows = [_row(step, index) for index in range(RIGHT)]
        record._right.update({(row["prompt_id"], row["response"]): row for row in rows})
        for old in list(islice(record._right, max(0, len(record._right) - MOST_RIGHT))):
            del record._right[old]
        if step % 10 == 0:
            record._browse += rows
        self.state.step = step

    def write(self, folder: Path, stage: RunningStage) -> Any:
        """Give the checkpoint what the rl stage gives it."""
        state = TrainingState(self.state.step, self.state.to_json())
        for log, rows in self.state.fresh_rows().items():
            stage.append(log, rows)
        return save_training_state(folder, state, policy=self.policy, trainer=self.trainer)


def _row(step: int, index: int) -> dict[str, Any]:
    text = f"{step} and {index} " * 20
    return {
        "prompt_id": f"prompt-{step * RIGHT + index}",
        "step": step,
        "prompt": text,
        "response": text,
        "reward": 1.0,
    }


def _stage(store: Store, folder: Path) -> RunningStage:
    component: Component = COMPONENT
    job = Job(run_id="bench", recipe="bench", stage="rl", component="rl", params={}, inputs={}, seed=0, store=store.uri)
    return RunningStage(
        job,
        component,
        component.params(),
        fingerprint="bench",
        inputs={},
        store=store,
        progress=Progress("rl", lambda event: None),
        scratch=folder / "scratch",
    )


def _count_bytes(store: Store) -> list[int]:
    """Count what the store is given from now on, in the one number of the list."""
    written, upload, write = [0], store.blobs.upload, store.blobs.write

    def counted_upload(prefix: str, folder: Path, entries: Any) -> None:
        written[0] += sum(entry.size for entry in entries)
        upload(prefix, folder, entries)

    def counted_write(key: str, data: bytes) -> None:
        written[0] += len(data)
        write(key, data)

    store.blobs.upload, store.blobs.write = counted_upload, counted_write  # type: ignore[method-assign]
    return written


def _cpu_name() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    name = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")
    return f"{name}, {os.cpu_count()} cores"


if __name__ == "__main__":
    run_script(__doc__, compare, steps=5000, every=10, width=64)
