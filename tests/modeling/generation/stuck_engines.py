"""Engines that get nothing done, each in its own way, and one that is only slow."""

from __future__ import annotations

import select
import signal
import subprocess
import sys

from components.modeling.generation.engine.frames import Arrays, Header
from components.modeling.generation.engine.pulse import beat
from tests.modeling.generation.plain_engine import PlainEngine


class WaitingEngine(PlainEngine):
    """Waits for ever, as does a worker of its own."""

    def sample(self, settings: Header, arrays: Arrays) -> Arrays:
        """Start the worker and say which process it is."""
        worker = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
        print(f"worker {worker.pid}", flush=True)
        signal.pause()
        raise AssertionError("nobody sends it a signal")


class BusyEngine(PlainEngine):
    """Computes for ever, as a collective that waits for its peers does on a GPU."""

    def sample(self, settings: Header, arrays: Arrays) -> Arrays:
        """Get nothing done."""
        while True:
            pass


class SlowEngine(PlainEngine):
    """Gets little done, for three times as long as the stage would wait for a sign of life."""

    def sample(self, settings: Header, arrays: Arrays) -> Arrays:
        """Give a beat now and then, using no CPU time."""
        for _ in range(15):
            select.select([], [], [], 0.2)
            beat()
        return super().sample(settings, arrays)
