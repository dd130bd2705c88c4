"""Supervised training for the steps: examples of random tokens, and a training that may be killed.

    python -m tests.gpu.supervised FOLDER STEPS     trains FOLDER/model; checkpoints in FOLDER/partial; resumes

Each step is a line on stdout, `step N`, so that whoever kills it knows when.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from components.contract.backends import Backends
from components.modeling.loading.load import load_policy
from components.modeling.supervised.examples import Example
from components.modeling.supervised.trainer import fit
from components.modeling.training.training_config import OptimizerConfig, SupervisedConfig
from components.runtime.system.determinism import deterministic_torch, set_environment
from tests.gpu.device import DEVICE, sized
from tests.gpu.models import token_rows

EVERY = 5
"""Steps between checkpoints."""


class Losses:
    """Hooks that keep the history, and checkpoints in a folder if one is given."""

    def __init__(self, folder: Path | None = None, *, tell: bool = False) -> None:
        self.rows: list[dict[str, float]] = []
        self.folder, self.tell = folder, tell

    @property
    def losses(self) -> list[float]:
        """Return the loss of each step."""
        return [row["loss"] for row in self.rows]

    def progress(self, done: int, total: int, **metrics: float) -> None:
        """Say which step it is, if asked to."""
        if self.tell:
            print(f"step {done}", flush=True)

    def log(self, step: int, **metrics: float) -> None:
        """Keep the row."""
        self.rows.append(metrics)

    def checkpoint_due(self, minutes: float | None) -> bool:
        """No clock decides."""
        return False

    def checkpoint(self, step: int, write: Callable[[Path], Callable[[], None] | None]) -> None:
        """Write one aside, then rename it."""
        assert self.folder is not None
        aside = self.folder / "partial.tmp"
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir(parents=True)
        if (finish := write(aside)) is not None:
            finish()
        aside.rename(self.folder / f"partial-{step:06d}")


def examples(count: int, vocabulary: int, *, longest: int = 0, seed: int = 0) -> list[Example]:
    """Return examples of several lengths, whose tokens can be learned: each sequence counts upward."""
    longest = longest or sized(256, 24)
    starts = token_rows([1] * count, vocabulary, seed=seed)
    found = []
    for index, (start,) in enumerate(starts):
        length = longest // 2 + (index * 7) % (longest // 2)
        tokens = [4 + (start + at) % (vocabulary - 4) for at in range(length)]
        found.append(Example(tokens=tokens, loss_mask=[at > 0 for at in range(length)]))
    return found


def config(steps: int, **given: Any) -> SupervisedConfig:
    """Return settings of a training of so many steps."""
    optimizer = OptimizerConfig(peak_learning_rate=given.pop("rate", 3e-3), warmup_steps=2)
    base = {"batch_size": 16, "micro_batch_tokens": sized(2048, 128), "checkpoint_every": 0, "optimizer": optimizer}
    return SupervisedConfig(**{**base, "steps": steps, **given})


def main() -> None:
    """Train, from the newest checkpoint if there is one, and save the model."""
    folder, steps = Path(sys.argv[1]), int(sys.argv[2])
    import os

    set_environment(Backends(deterministic=True), os.environ)
    policy = load_policy(folder / "model", device=DEVICE, dtype="bfloat16")
    saved = sorted(folder.glob("partial-*"))
    print(f"resumed {saved[-1].name if saved else 'nothing'}", flush=True)
    with deterministic_torch(Backends(deterministic=True)):
        fit(
            policy,
            examples(64, policy.vocab_size),
            config(steps, checkpoint_every=EVERY),
            Losses(folder, tell=True),
            seed=0,
            resume=saved[-1] if saved else None,
        )
    policy.save(folder / "trained")


if __name__ == "__main__":
    main()
