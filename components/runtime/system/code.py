"""Which code runs: version, dirty flag and lock file, for lineage."""

from __future__ import annotations

import json
import os
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from components.contract.artifacts import hash_file

ROOT = Path(__file__).parents[3]
LOCK = ROOT / "infra" / "requirements" / "stages.lock"
VARIABLE = "POSTTRAIN_CODE"


@cache
def code_version() -> dict[str, Any]:
    """Return {"version", "dirty", "lock"}: git commit (or package version), uncommitted changes, lock-file SHA-256.

    An image sets it at build time through the variable POSTTRAIN_CODE (JSON), since it holds no git checkout.
    """
    given = os.environ.get(VARIABLE)
    if given:
        return json.loads(given)
    commit = _git("rev-parse", "HEAD")
    status = _git("status", "--porcelain", "--untracked-files=no")
    return {
        "version": commit or _package_version(),
        "dirty": bool(status),
        "lock": hash_file(LOCK) if LOCK.is_file() else None,
    }


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _package_version() -> str:
    try:
        return version("posttrain")
    except PackageNotFoundError:
        return "unknown"
