"""ZeRO 1 to 3 in a world of one: DeepSpeed takes the steps of plain torch, in the memory that was estimated."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.gpu.device import gpu_only, needs
from tests.gpu.training_memory import CLOSE_TO_ESTIMATE

pytestmark = [pytest.mark.gpu, needs("deepspeed")]

ROOT = Path(__file__).parents[2]


def measured(tmp_path: Path, way: str) -> dict[str, Any]:
    """Train in a process of its own; DeepSpeed keeps state in its process."""
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-m", "tests.gpu.training_memory", way, str(tmp_path / way)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads((tmp_path / way).read_text())


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("zero")
    return {way: measured(folder, way) for way in ("torch", "zero-1", "zero-2", "zero-3")}


@pytest.mark.parametrize("way", ["zero-1", "zero-2", "zero-3"])
def test_the_steps_are_those_of_plain_torch(found: dict[str, dict[str, Any]], way: str) -> None:
    assert found[way]["losses"] == pytest.approx(found["torch"]["losses"], rel=2e-2)


@gpu_only("a count of the memory that tensors take")
@pytest.mark.parametrize("way", ["zero-1", "zero-2", "zero-3"])
def test_memory_is_within_fifteen_percent_of_the_estimate(found: dict[str, dict[str, Any]], way: str) -> None:
    told = found[way]
    assert told["peak"] == pytest.approx(told["estimate"], rel=CLOSE_TO_ESTIMATE), told["parts"]
