"""How every engine starts a job: the launcher's command, and the environment of its process or container."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import Any

from components.runtime.system.code import ROOT, VARIABLE, code_version

LAUNCHER = "components.runtime.job.process"
PYTHON = "POSTTRAIN_PYTHON"
"""Interpreter of the environment that holds the stages' libraries; .venv beside the code unless set."""
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "64",
    "LRU_CACHE_CAPACITY": "64",
    "GX_ANALYTICS_ENABLED": "false",
    "PYTHONWARNINGS": "ignore:resource_tracker",
}
"""Read once, when the libraries start. A job with more cores raises its own threads; the default caches of 1024
compiled kernels, one for each length that a batch has had, cost a small model half a gigabyte. A killed job leaves
semaphores to Python's tracker, which cleans up and need not tell the user."""


def process_environment(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the variables of a job's process on this machine: those of `environ`, ours, and the code's identity."""
    return {**(environ or {}), **ENVIRONMENT, VARIABLE: json.dumps(code_version())}


def container_environment() -> dict[str, str]:
    """Return the variables of a job's container or pod.

    Its root file system is read-only, so temporary files go to /tmp. The image identifies its own code.
    """
    return {**ENVIRONMENT, "HOME": "/tmp", "POSTTRAIN_CACHE": "/tmp/posttrain", "PYTHONUNBUFFERED": "1"}


def stage_python(environ: Mapping[str, str] = os.environ) -> str:
    """Return the interpreter with the stages' libraries, for an engine with its own environment."""
    own = ROOT / ".venv" / "bin" / "python"
    return environ.get(PYTHON) or (str(own) if own.exists() else sys.executable)


def launcher_command(python: str, store: str, run_id: str, stage: str, *flags: str) -> list[str]:
    """Return the command that runs a job from the store."""
    return [python, "-m", LAUNCHER, *launcher_arguments(store, run_id, stage, *flags)]


def launcher_arguments(store: str, run_id: str, stage: str, *flags: str, run: str = "--run") -> list[str]:
    """Return the launcher's arguments; `run` is the option's name, since torchrun takes --run as its own."""
    return ["--store", store, run, run_id, "--stage", stage, *flags]


def tied_to_this_process() -> list[str]:
    """Return the launcher's flags that end it with this process."""
    return ["--parent", str(os.getpid())]


def as_list(variables: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return variables with the field names of Kubernetes, sorted."""
    return [{"name": name, "value": value} for name, value in sorted(variables.items())]
