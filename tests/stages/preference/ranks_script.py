"""What test_ranks.py runs on two ranks: replicas and shards take the steps of one process; results go to one JSON file.

python ranks_script.py FOLDER RANK WORLD
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
from torch import distributed

from components.contract.backends import Backends
from components.modeling.loading.load import load_policy
from components.preference.comparisons import encoded, with_others
from components.preference.params import PreferenceParams
from components.preference.reading import read_candidates
from components.preference.training import Preferences, PreferenceSummary, fit_preferences

WAYS = {
    "replicas": Backends(),
    "shards": Backends(trainer="fsdp"),
    "zero-3": Backends(trainer="deepspeed", zero_stage=3),
}
LOSSES = {"dpo": "pairs", "kto": "labels", "ranking": "lists"}


class Rows:
    """The hooks of a training that keep its history."""

    def __init__(self) -> None:
        self.rows: list[dict[str, float]] = []

    def progress(self, done: int, total: int, **metrics: float) -> None:
        """Show nothing."""

    def log(self, step: int, **metrics: float) -> None:
        """Keep a row."""
        self.rows.append(metrics)

    def checkpoint_due(self, minutes: float | None) -> bool:
        """Make no checkpoints."""
        return False

    def checkpoint(self, step: int, write: Any) -> None:
        """Make no checkpoints."""


def trained(folder: Path, loss: str, backends: Backends, *, sharded: bool) -> dict[str, Any]:
    """Return the history of a few steps, and what held-out examples say."""
    params = PreferenceParams.model_validate(
        {
            "preference_loss": {"name": loss, "sft": 0.2},
            "steps": 4,
            "batch_size": 6,
            "micro_batch_tokens": 64,
            "checkpoint_every": 0,
            "optimizer": {"peak_learning_rate": 0.02},
        }
    )
    policy = load_policy(folder / "model", sharded=sharded)
    found = encoded(policy, read_candidates([folder / LOSSES[loss]], loss, params.comparing, "refuse").examples)
    found = with_others(found, params.max_tokens) if params.comparing.divergence else found
    hooks = Rows()
    given = Preferences(params.preference_loss.resolve(), found, found[:5], None)
    summary = fit_preferences(policy, (), params, hooks, preferences=given, seed=0, backends=backends)
    assert isinstance(summary, PreferenceSummary)
    accuracy = summary.held_out["validation_accuracy"]
    return {"rows": hooks.rows, "loss": summary.held_out["validation_loss"], "accuracy": accuracy.value}  # type: ignore[union-attr]


def main() -> None:
    """Run everything and let the first rank write it down."""
    folder, rank, world = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=world)
    found = {
        f"{way}-{loss}": trained(folder, loss, backends, sharded=way == "shards")
        for way, backends in WAYS.items()
        for loss in LOSSES
    }
    if rank == 0:
        (folder / "found.json").write_text(json.dumps(found))
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
