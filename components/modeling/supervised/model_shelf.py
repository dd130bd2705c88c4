"""The models that a training stage keeps as it trains: the Checkpoints artifact."""

from __future__ import annotations

import json
from pathlib import Path

from components.modeling.training.trainer import Trainer

INDEX = "index.json"
READ_ONLY = 0o444


class ModelShelf:
    """Complete Model folders, one per kept step, listed in index.json; steps already in the folder stay."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        path = folder / INDEX
        entries = json.loads(path.read_text()) if path.is_file() else []
        self._steps: list[int] = [entry["step"] for entry in entries]

    @property
    def steps(self) -> list[int]:
        """Return the kept steps, ascending."""
        return list(self._steps)

    def keep(self, step: int, trainer: Trainer) -> None:
        """Save the trained policy as the model of `step`."""
        path = self.folder / _name(step)
        path.mkdir()
        trainer.save(path)
        for file in path.rglob("*"):
            if file.is_file():
                file.chmod(READ_ONLY)  # so that checkpoints link it instead of copying it
        self._steps.append(step)
        entries = [{"path": _name(kept), "step": kept} for kept in self._steps]
        (self.folder / INDEX).write_text(json.dumps(entries, indent=1, sort_keys=True) + "\n")


def _name(step: int) -> str:
    return f"step-{step:06d}"
