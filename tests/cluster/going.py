"""A run that goes on: our own command in a process, and the run that it began in the store."""

from __future__ import annotations

import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from tests.cluster.session import Session

RECIPE = "quickstart"
ROOT = Path(__file__).parents[2]


class Going(Protocol):
    """Our command that follows a run."""

    def code(self) -> int | None:
        """Return its exit code; None while it goes on."""

    def said(self) -> str:
        """Return what it has printed."""

    def stop(self) -> None:
        """Stop the run, as Ctrl-C does."""

    def leave(self) -> None:
        """End the command if it still goes on, without a word to the engine."""


@dataclass(frozen=True)
class Command:
    """The command in a process of its own."""

    process: subprocess.Popen[bytes]
    log: Path

    def code(self) -> int | None:
        """Return its exit code; None while it goes on."""
        return self.process.poll()

    def said(self) -> str:
        """Return what it has printed."""
        return self.log.read_text(errors="replace")

    def stop(self) -> None:
        """Stop the run, as Ctrl-C does."""
        self.process.send_signal(signal.SIGINT)

    def leave(self) -> None:
        """Kill it: the run goes on in the cluster, and the same command finds it again."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


def start_cli(session: Session, engine: str, step: str) -> Command:
    """Start quickstart on an engine with the step's seed; a run that a killed command left is gone on with."""
    session.folder.mkdir(parents=True, exist_ok=True)
    log = session.folder / f"{step}.log"
    store, seed = session.store.uri, session.seed(step)
    words = ["run", RECIPE, "--engine", engine, "--seed", str(seed), "--store", store]
    command = [sys.executable, "-m", "pipelines.cli", *words]
    with log.open("ab") as stream:
        process = subprocess.Popen(
            command, cwd=ROOT, env={**session.environ, "PYTHONPATH": str(ROOT)}, stdout=stream, stderr=stream
        )
    return Command(process, log)
