"""Two ranks train a reward model as one process does, with whole copies, FSDP and ZeRO 3, and save the same folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from tests.stages.reward_model.data import inputs, pairs
from tests.stages.reward_model.ranks_script import WAYS, train

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ranks")
    inputs(folder, pairs(12))
    script = Path(__file__).with_name("ranks_script.py")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    ranks = [
        subprocess.Popen(
            [sys.executable, str(script), str(folder), str(rank), "2"],
            env={**environment, "LOCAL_RANK": str(rank)},
            stderr=(folder / f"errors-{rank}").open("w"),
        )
        for rank in range(2)
    ]
    codes = [rank.wait(timeout=500) for rank in ranks]
    assert codes == [0, 0], "\n".join((folder / f"errors-{rank}").read_text()[-1500:] for rank in range(2))
    return folder


@pytest.mark.parametrize("way", WAYS)
def test_two_ranks_take_the_steps_of_one(folder: Path, tmp_path: Path, way: str) -> None:
    alone = train(folder, "torch", tmp_path / "alone")
    found: dict[str, Any] = json.loads((folder / "found.json").read_text())[way]
    assert found["losses"] == pytest.approx(alone["losses"], abs=1e-4)
    assert found["rewards"] == pytest.approx(alone["rewards"], abs=2e-3)
    one, two = (load_file(path / "model.safetensors") for path in (tmp_path / "alone", folder / f"{way}-2"))
    assert one.keys() == two.keys() and "score.weight" in one
    for name, weight in one.items():
        torch.testing.assert_close(two[name], weight, atol=2e-3, rtol=0, msg=name)
