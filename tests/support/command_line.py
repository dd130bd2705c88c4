"""The posttrain command as a user runs it: a process of its own, in a folder of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MICRO = Path(__file__).parents[1] / "end_to_end" / "recipes" / "micro.yaml"
LIMIT_SECONDS = 600.0


@dataclass(frozen=True)
class Project:
    """A working folder with a store; lineage waits in the spool unless a test asks for it."""

    folder: Path
    store: str
    environment: dict[str, str] = field(default_factory=dict)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start the command in a process group of its own, so that a test can kill all of it at once."""
        return subprocess.Popen(
            [sys.executable, "-m", "pipelines.cli", *arguments],
            cwd=self.folder,
            env={**os.environ, "POSTTRAIN_STORE": self.store, "POSTTRAIN_LINEAGE": "later", **self.environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def call(self, *arguments: str, code: int = 0) -> str:
        """Run the command to its end, check its exit code and return what it printed on stdout."""
        process = self.start(*arguments)
        out, err = process.communicate(timeout=LIMIT_SECONDS)
        assert process.returncode == code, f"{arguments}: exit code {process.returncode}\n{out}\n{err}"
        assert "Traceback" not in out + err, f"{arguments}\n{out}\n{err}"
        return out

    def json(self, *arguments: str) -> Any:
        """Run the command with --json and return what it printed."""
        return json.loads(self.call(*arguments, "--json"))

    def run(self, *arguments: str, recipe: Path | str = MICRO) -> dict[str, Any]:
        """Run a recipe and return its `show --json`."""
        return self.json("run", str(recipe), *arguments)


def digests(shown: dict[str, Any]) -> dict[str, str]:
    """Return "stage.port" -> digest of everything that a run made."""
    return {
        f"{stage['name']}.{port}": output["digest"]
        for stage in shown["stages"]
        for port, output in stage["outputs"].items()
    }


def caches(shown: dict[str, Any]) -> dict[str, str]:
    """Return stage -> cache hit or miss."""
    return {stage["name"]: stage["cache"] for stage in shown["stages"]}
