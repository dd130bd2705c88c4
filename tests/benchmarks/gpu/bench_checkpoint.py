"""What a checkpoint costs: how long training waits for the copy to the host, and how long writing takes beside it.

python -m tests.benchmarks.gpu.bench_checkpoint [--json FILE]
"""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path

from components.modeling.supervised.loss import accumulate_gradients
from components.modeling.training.build import build_trainer
from components.modeling.training.training_config import OptimizerConfig
from components.modeling.training.training_state import TrainingState, load_training_state, save_training_state
from tests.benchmarks.gpu.figures import Figures, run, seconds_of
from tests.gpu.device import free_memory, sized, synchronize
from tests.gpu.models import qwen, random_policy
from tests.gpu.supervised import examples


def measure(found: Figures) -> None:
    """Measure the snapshot, which stops training, the writing, which does not, and reading it again."""
    free_memory()
    policy = random_policy(qwen("1.5B"))
    trainer = build_trainer(policy, OptimizerConfig(), total_steps=100)
    rows = examples(16, policy.vocab_size, longest=sized(2048, 24))

    def step() -> None:
        accumulate_gradients(trainer, rows, max_tokens=sized(8192, 128))
        trainer.step(0)

    step()
    a_step = seconds_of(step, warm_up=0, tries=3)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        need = 14 * sum(parameter.numel() for parameter in policy.module.parameters())
        if shutil.disk_usage(place).free < 1.2 * need:
            raise SystemExit(f"{place} has no room for a checkpoint of {need / 1e9:.0f} GB; set TMPDIR")
        synchronize()
        began = time.perf_counter()
        finish = save_training_state(place, TrainingState(1), policy=policy, trainer=trainer)
        snapshot = time.perf_counter() - began
        finish()
        written = time.perf_counter() - began - snapshot
        size = sum(path.stat().st_size for path in place.iterdir()) / 1e9
        began = time.perf_counter()
        load_training_state(place, policy=policy, trainer=trainer)
        synchronize()
        read = time.perf_counter() - began
    found.add("size", size, "GB")
    found.add("the stop: a copy to the host", snapshot, "s")
    found.add("rate of the copy", size / snapshot, "GB/s", at_least=4.0)
    found.add("the stop, in steps", snapshot / a_step, "steps")
    found.add("writing, beside training", written, "s")
    found.add("reading, at a resume", read, "s")


if __name__ == "__main__":
    run(__doc__, measure)
