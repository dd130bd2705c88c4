"""Two ranks, with whole models or with shards, take the steps that one process takes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from components.contract.backends import Backends
from tests.stages.preference.data import labelled, lists, pairs, pairs_folder
from tests.stages.preference.ranks_script import LOSSES, WAYS, trained
from tests.stages.supervised_data import base_model

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ranks")
    base_model(path / "model")
    for name, rows in {"pairs": pairs(12), "labels": labelled(12), "lists": lists(8)}.items():
        pairs_folder(path / name, rows)
    script = Path(__file__).with_name("ranks_script.py")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    ranks = [
        subprocess.Popen(
            [sys.executable, str(script), str(path), str(rank), "2"],
            env={**environment, "LOCAL_RANK": str(rank)},
            stderr=(path / f"errors-{rank}").open("w"),
        )
        for rank in range(2)
    ]
    codes = [rank.wait(timeout=300) for rank in ranks]
    assert codes == [0, 0], (path / "errors-0").read_text()[-3000:]
    return path


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("way", WAYS)
def test_ranks_take_the_steps_of_one_process(folder: Path, way: str, loss: str) -> None:
    found: dict[str, Any] = json.loads((folder / "found.json").read_text())[f"{way}-{loss}"]
    expected = trained(folder, loss, Backends(), sharded=False)
    assert len(found["rows"]) == 4
    for row, other in zip(found["rows"], expected["rows"], strict=True):
        assert row.keys() == other.keys()
        assert list(row.values()) == pytest.approx(list(other.values()), rel=2e-3, abs=2e-4)
    assert (found["loss"], found["accuracy"]) == pytest.approx((expected["loss"], expected["accuracy"]), rel=2e-3)
