"""The posttrain command with the toy package installed, whose stages take no time."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PLUGIN = ROOT / "tests" / "pipelines" / "plugin"
RECIPE = "tests/pipelines/recipes/toy-run.yaml"
Command = Callable[..., subprocess.CompletedProcess[str]]


def toy_command(store: Path) -> Command:
    """Return a function that runs `posttrain` on a store; lineage waits unless `variables` ask for it."""
    environment = {**os.environ, "POSTTRAIN_STORE": str(store), "POSTTRAIN_LINEAGE": "later"}
    environment.pop("MLFLOW_TRACKING_URI", None)  # another test's server
    environment["PYTHONPATH"] = os.pathsep.join([str(PLUGIN), *filter(None, [os.environ.get("PYTHONPATH")])])

    def command(*arguments: str, variables: dict[str, str] | None = None, **options: Any) -> Any:
        return subprocess.run(
            [sys.executable, "-m", "pipelines.cli", *arguments],
            cwd=ROOT,
            env={**environment, **(variables or {})},
            timeout=120,
            text=True,
            **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options},
        )

    return command
