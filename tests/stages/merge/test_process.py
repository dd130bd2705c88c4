"""A merge in a process of its own: its memory has a bound, and killed at any time it leaves no half of a model."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from components.contract.artifacts import ArtifactType, describe_folder
from components.merge.component import BLOCKS
from tests.stages.merge.folders import tensors, write_model

MIB = 1 << 20
LARGE = {"model.embed_tokens.weight": (28_000, 1024), "model.layers.0.mlp.up_proj.weight": (2_000, 1024)}
"""117 MiB in float32, of which the embedding has 109."""


def child(folder: Path, merger: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.stages.merge.child", str(folder), json.dumps(merger)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Two models and their base, 351 MiB in all."""
    folder = tmp_path_factory.mktemp("large")
    base = tensors(0, **LARGE)
    write_model(folder / "base", base)
    for number in (1, 2):
        weights = {name: base[name] + one for name, one in tensors(number, 0.01, **LARGE).items()}
        write_model(folder / f"models-{number}", weights)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize(
    "merger", [{"name": "ties", "keep": 0.2}, {"name": "low_rank", "rank": 4}], ids=["ties", "low_rank"]
)
def test_memory_is_bounded_by_blocks_and_not_by_the_models(large: Path, merger: Any) -> None:
    """The bound is below the largest tensor of the models and their base alone."""
    bound = BLOCKS / MIB
    assert bound < 109 * 3
    process = child(large, merger)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    told = json.loads(out.splitlines()[-1])
    assert told["peak"] - told["before"] < bound, told
    shutil.rmtree(large / "merge")


def test_a_killed_merge_starts_again_and_ends_with_the_same_bytes(tmp_path: Path) -> None:
    shapes = {f"model.layers.{layer}.up.weight": (700, 600) for layer in range(8)}
    for name, seed in (("base", 0), ("models-1", 1), ("models-2", 2)):
        write_model(tmp_path / name, tensors(seed, **shapes))
    merger = {"name": "dare", "drop": 0.5}
    whole = child(tmp_path, merger)
    _, err = whole.communicate(timeout=120)
    assert whole.returncode == 0, err
    model = tmp_path / "merge" / "outputs" / "model"
    digest = describe_folder(model, ArtifactType.MODEL).digest
    for delay in (0.0, 0.05, 0.15):
        shutil.rmtree(tmp_path / "merge")
        process = child(tmp_path, merger)
        assert process.stdout is not None and process.stdout.readline() == "began\n"
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
        files = list(model.glob("*.safetensors")) if model.is_dir() else []
        assert all(_is_whole(file) for file in files)  # what has its name is whole
    again = child(tmp_path, merger)
    _, err = again.communicate(timeout=120)
    assert again.returncode == 0, err
    assert describe_folder(model, ArtifactType.MODEL).digest == digest


def _is_whole(file: Path) -> bool:
    from safetensors import safe_open

    with safe_open(file, framework="pt") as opened:
        return all(isinstance(opened.get_tensor(name), torch.Tensor) for name in list(opened.keys()))
