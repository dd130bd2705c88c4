"""Supervised training: bfloat16 with master weights learns what float32 learns; recompute; kill and resume."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from components.contract.backends import Backends
from components.modeling.loading.load import load_policy
from components.modeling.supervised.trainer import fit
from tests.gpu.device import DEVICE, free_memory, gpu_only, peak_memory, sized
from tests.gpu.models import letters_model, qwen, random_policy
from tests.gpu.supervised import Losses, config, examples

pytestmark = pytest.mark.gpu

STEPS, KILLED_AT = 20, 12
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return letters_model(tmp_path_factory.mktemp("model"), width=sized(512, 32), layers=sized(6, 2))


def losses(folder: Path, dtype: str, *, backends: Backends | None = None, steps: int = 60) -> list[float]:
    policy = load_policy(folder, device=DEVICE, dtype=dtype)
    hooks = Losses()
    fit(policy, examples(64, policy.vocab_size), config(steps), hooks, seed=0, backends=backends)
    return hooks.losses


def test_bfloat16_with_master_weights_learns_what_float32_learns(folder: Path) -> None:
    exact, low = (losses(folder, dtype) for dtype in ("float32", "bfloat16"))
    assert exact[-1] < 0.6 * exact[0]  # there is something to learn
    assert low[-1] == pytest.approx(exact[-1], rel=0.1, abs=0.05)
    assert all(a == pytest.approx(b, rel=0.2, abs=0.1) for a, b in zip(exact, low, strict=True))


def test_small_updates_are_not_lost_in_bfloat16(folder: Path) -> None:
    """An update of a 10,000th of a weight is below half a step of bfloat16: only master weights add such up."""
    policy = load_policy(folder, device=DEVICE, dtype="bfloat16")
    hooks = Losses()
    fit(policy, examples(64, policy.vocab_size), config(40, rate=2e-6), hooks, seed=0)
    master = load_policy(folder, device=DEVICE, dtype="float32")
    exact = Losses()
    fit(master, examples(64, master.vocab_size), config(40, rate=2e-6), exact, seed=0)
    fallen, wanted = (found.losses[0] - found.losses[-1] for found in (hooks, exact))
    assert fallen == pytest.approx(wanted, rel=0.5, abs=3e-3)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_recompute_changes_no_loss(folder: Path, dtype: str) -> None:
    kept, again = (losses(folder, dtype, backends=Backends(recompute=on), steps=8) for on in (False, True))
    assert again == pytest.approx(kept, rel=1e-4 if dtype == "float32" else 2e-2)


@gpu_only("a count of the memory that tensors take")
def test_recompute_saves_the_activations() -> None:
    peaks = []
    for recompute in (False, True):
        free_memory()
        policy = random_policy(qwen("0.5B"))
        rows = examples(8, policy.vocab_size, longest=2048)
        before = torch.cuda.memory_allocated()
        settings = config(1, batch_size=8, micro_batch_tokens=8192, max_tokens=4096)
        fit(policy, rows, settings, Losses(), seed=0, backends=Backends(recompute=recompute))
        peaks.append(peak_memory() - before)
        del policy
    assert peaks[1] < 0.6 * peaks[0]


def test_a_killed_training_goes_on_to_the_same_weights(folder: Path, tmp_path: Path) -> None:
    """Killed with SIGKILL and started again, under `deterministic: true`: to the last bit what went straight on."""
    trained = []
    for name, killed in (("straight", False), ("killed", True)):
        place = tmp_path / name
        shutil.copytree(folder, place / "model")
        said = run(place, killed=killed)
        if killed:
            assert said[-1] == f"step {KILLED_AT}"
            said = run(place, killed=False)
            assert said[0] == "resumed partial-000010" and said[1] == "step 11"
        trained.append(dict(load_policy(place / "trained", dtype="bfloat16").module.named_parameters()))
    straight, resumed = trained
    assert all(torch.equal(straight[name], resumed[name]) for name in straight)


def run(place: Path, *, killed: bool) -> list[str]:
    """Train in a process of its own, to the end or until it is killed; return its lines."""
    command = [sys.executable, "-m", "tests.gpu.supervised", str(place), str(STEPS)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    said: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        for line in process.stdout:
            said.append(line.strip())
            if killed and said[-1] == f"step {KILLED_AT}":
                process.send_signal(signal.SIGKILL)
                break
    assert process.returncode == (-signal.SIGKILL if killed else 0), said[-5:]
    return said
