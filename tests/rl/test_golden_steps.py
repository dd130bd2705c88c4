"""Golden steps: every preset gives the weights and the history that it gave when its file in golden/ was written.

`WRITE_GOLDEN=1 pytest tests/rl/test_golden_steps.py` writes them; do that only where numbers are meant to change.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch

from components.contract.artifacts import canonical_json
from components.rl.presets import preset_names
from components.runtime.system.products import in_use
from tests.rl.tiny_loop import loop_of, write_model

GOLDEN = Path(__file__).parent / "golden" / "steps.json"
STEPS = 3
NUMBERS = ("reward_mean", "entropy", "loss", "grad_norm")
"""What is compared where another processor or library rounds differently."""
OTHER_ROWS = ("acre", "rlvrr")
"""Their rewards read columns that the rows of this loop do not have."""
SETTINGS = {"steps": STEPS, "group_size": 4, "max_new_tokens": 4, "minibatches": 2}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model"))


def machine() -> str:
    """Return what bytes of a step depend on besides the code, once a model is loaded."""
    by = in_use()
    return (
        f"torch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}, {torch.get_num_threads()} threads, "
        f"processor {processor()}, products by {by.sampling} and {by.training}"
    )


def processor() -> str:
    """Return vendor, family and model as Linux tells them: products round differently between models."""
    told = Path("/proc/cpuinfo")
    lines = told.read_text().splitlines() if told.is_file() else []
    known = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return " ".join(known.get(name, "?") for name in ("vendor_id", "cpu family", "model"))


def steps_of(slug: str, folder: Path) -> tuple[list[dict[str, float]], str]:
    """Return the history of a few steps of a preset, and the SHA-256 of the weights after them."""
    loop = loop_of(folder, method=slug, **SETTINGS)
    history = [loop.step() for _ in range(STEPS)]
    digest = hashlib.sha256()
    for name, value in sorted(loop.policies.trained.state().items()):
        digest.update(name.encode() + value.numpy().tobytes())
    return history, digest.hexdigest()


def digest_of(history: list[dict[str, float]], columns: list[str]) -> str:
    """Return the SHA-256 of the golden's columns; a later column changes nothing."""
    rows = [{name: repr(row[name]) for name in columns if name in row} for row in history]
    return hashlib.sha256(canonical_json(rows)).hexdigest()


@pytest.mark.skipif("WRITE_GOLDEN" not in os.environ, reason="writes the golden file")
def test_write(folder: Path) -> None:
    found: dict[str, Any] = {}
    for slug in preset_names():
        if slug in OTHER_ROWS:
            continue
        history, weights = steps_of(slug, folder)
        columns = sorted({name for row in history for name in row})
        numbers = [{name: row[name] for name in NUMBERS if name in row} for row in history]
        found[slug] = {"weights": weights, "history": digest_of(history, columns), "columns": columns} | {
            "numbers": numbers
        }
    GOLDEN.parent.mkdir(exist_ok=True)
    GOLDEN.write_text(json.dumps({"machine": machine(), "presets": found}, indent=1, sort_keys=True) + "\n")


@pytest.mark.skipif("WRITE_GOLDEN" in os.environ, reason="the golden file is being written")
@pytest.mark.parametrize("slug", sorted(json.loads(GOLDEN.read_text())["presets"]) if GOLDEN.exists() else [])
def test_a_preset_gives_the_bytes_that_it_gave(slug: str, folder: Path) -> None:
    golden = json.loads(GOLDEN.read_text())
    expected = golden["presets"][slug]
    history, weights = steps_of(slug, folder)
    for row, numbers in zip(history, expected["numbers"], strict=True):
        assert {name: row[name] for name in numbers} == pytest.approx(numbers, rel=1e-3, abs=1e-4)
    if golden["machine"] == machine():
        assert (weights, digest_of(history, expected["columns"])) == (expected["weights"], expected["history"])
