"""Engines without a model, quick to start: one that always draws the same token, and broken ones."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from components.modeling.generation.engine.engine import InTurn
from components.modeling.generation.engine.frames import Arrays, Header

TOKEN = 5


class PlainEngine(InTurn):
    """Draws one token, TOKEN, for every row; fails as it is told to by the number of prompts."""

    def start(self, folder: str, options: dict[str, Any]) -> Header:
        """Say so on stdout."""
        print("the engine has started", flush=True)
        return {"max_positions": options.get("room", 128)}

    def connect(self, settings: Header) -> None:
        """Take weights by any way."""

    def begin(self) -> None:
        """Do without weights."""

    def take(self, bucket: Header) -> None:
        """Look at none."""

    def end(self) -> None:
        """Do without weights."""

    def sample(self, settings: Header, arrays: Arrays) -> Arrays:
        """Two prompts: no memory. Three: the end of the process. Four: the last response is lost."""
        prompts, rows = len(arrays["lengths"]), int(arrays["counts"].sum())
        if prompts == 2:
            raise MemoryError("no room for 2 prompts")
        if prompts == 3:
            print("about to end", flush=True)
            os._exit(7)
        replied = rows - (prompts == 4)
        return {
            "tokens": np.full(rows, TOKEN, np.int32),
            "lengths": np.ones(replied, np.int32),
            "logprobs": np.full(rows, -0.5, np.float32),
            "finished": np.zeros(replied, bool),
        }

    def rest(self) -> Header:
        """Hold nothing."""
        return {}


class PackageEngine(PlainEngine):
    """Needs a package that nobody has."""

    def start(self, folder: str, options: dict[str, Any]) -> Header:
        """Import it."""
        import a_package_that_nobody_has  # noqa: F401

        return {}


class GatedEngine(PlainEngine):
    """Draws when somebody opens its gate, a named pipe."""

    def start(self, folder: str, options: dict[str, Any]) -> Header:
        """Remember the gate."""
        self.gate = options["gate"]
        return super().start(folder, options)

    def sample(self, settings: Header, arrays: Arrays) -> Arrays:
        """Wait at the gate."""
        with Path(self.gate).open("rb"):
            return super().sample(settings, arrays)
