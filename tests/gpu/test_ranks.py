"""Several ranks on one device, by gloo: replicas and FSDP take the steps of one process of plain torch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from components.modeling.loading.load import load_policy
from components.modeling.ranks import Ranks
from tests.gpu.device import gpu_only, sized
from tests.gpu.models import letters_model
from tests.gpu.ranks import GLOO, make, steps

pytestmark = pytest.mark.gpu

ROOT = Path(__file__).parents[2]
CLOSE = {"float32": 1e-3, "bfloat16": 5e-2}
"""How far losses and norms may be apart, relative to their size: sums are made in another order."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ranks")
    letters_model(path / "model", width=sized(256, 32), layers=sized(4, 2))
    return path


@pytest.fixture(scope="module")
def alone(folder: Path) -> dict[str, list[list[float]]]:
    """Return the steps of one process of plain torch in each precision; the trained models are in the folder."""
    rows = {}
    for dtype in CLOSE:
        trainer = make(folder, "replicas", dtype, Ranks())
        rows[dtype] = steps(trainer)
        trainer.save(folder / f"alone-{dtype}")
    return rows


def run(folder: Path, way: str, dtype: str, world: int, backend: str = GLOO) -> dict[str, Any]:
    """Run the ranks; return what the first one wrote."""
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "GLOO_SOCKET_IFNAME": "lo"}
    logs = [folder / f"errors-{way}-{dtype}-{world}-{rank}" for rank in range(world)]
    ranks = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.gpu.ranks", str(folder), way, dtype, str(rank), str(world), backend],
            env=environment,
            stderr=logs[rank].open("w"),
        )
        for rank in range(world)
    ]
    codes = [process.wait(timeout=300) for process in ranks]
    assert codes == [0] * world, "\n".join(log.read_text()[-1500:] for log in logs)
    return json.loads((folder / f"{way}-{dtype}-{world}.json").read_text())


def check(folder: Path, found: dict[str, Any], rows: list[list[float]], name: str, dtype: str) -> None:
    """Compare steps, weights and draws with those of one process."""
    assert found["rows"] == [pytest.approx(row, rel=CLOSE[dtype]) for row in rows]
    one, other = (load_policy(folder / path) for path in (f"alone-{dtype}", f"{name}-end"))
    pairs = zip(one.module.parameters(), other.module.parameters(), strict=True)
    assert max(float((a - b).detach().abs().max()) for a, b in pairs) < (2e-3 if dtype == "float32" else 5e-2)
    assert len(found["drawn"]) == 6 and all(found["drawn"])


@pytest.mark.parametrize("dtype", list(CLOSE))
@pytest.mark.parametrize("world", [2, 4])
def test_replicas_on_one_device(folder: Path, alone: dict[str, list[list[float]]], world: int, dtype: str) -> None:
    found = run(folder, "replicas", dtype, world)
    check(folder, found, alone[dtype], f"replicas-{dtype}-{world}", dtype)


@pytest.mark.parametrize("dtype", list(CLOSE))
@pytest.mark.parametrize("world", [1, 2])
def test_fsdp(folder: Path, alone: dict[str, list[list[float]]], world: int, dtype: str) -> None:
    found = run(folder, "fsdp", dtype, world)
    check(folder, found, alone[dtype], f"fsdp-{dtype}-{world}", dtype)


@pytest.mark.parametrize("dtype", list(CLOSE))
@pytest.mark.parametrize("world", [2, 4])
def test_groups_of_two_compute_each_pass_together(
    folder: Path, alone: dict[str, list[list[float]]], world: int, dtype: str
) -> None:
    found = run(folder, "context", dtype, world)
    check(folder, found, alone[dtype], f"context-{dtype}-{world}", dtype)


@gpu_only("NCCL")
def test_fsdp_in_a_world_of_one_by_nccl(folder: Path, alone: dict[str, list[list[float]]]) -> None:
    assert torch.cuda.is_available()
    found = run(folder, "fsdp", "bfloat16", 1, "cpu:gloo,cuda:nccl")
    check(folder, found, alone["bfloat16"], "fsdp-bfloat16-1", "bfloat16")
