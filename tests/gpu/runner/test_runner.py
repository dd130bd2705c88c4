"""The runner of the GPU steps: what it finds, leaves out, says and writes, without any GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.gpu.outcome import run_step
from tests.gpu.steps import HERE, ROOT, Step, marked, steps

HERE_CPU = {"device": "CPU rehearsal (x)", "is_gpu": False}


def command(*words: str, device: str = "cpu") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "POSTTRAIN_TEST_DEVICE": device}
    return subprocess.run(
        [sys.executable, "-m", "tests.gpu", *words], env=environment, cwd=ROOT, capture_output=True, text=True
    )


def write(folder: Path, text: str) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "test_made.py"
    path.write_text(f"import pytest\npytestmark = pytest.mark.gpu\n{text}")
    return str(path)


def run(tmp_path: Path, text: str, limit: float = 60) -> dict[str, Any]:
    """Run tests as a step; return the JSON that it leaves."""
    step = Step("made", "tests that were made", (write(tmp_path / "tests", text),))
    outcome = run_step(step, "test", HERE_CPU, tmp_path / "out", limit=limit)
    written = json.loads((tmp_path / "out" / "test-made.json").read_text())
    assert written["verdict"] == outcome.verdict and written["device"] == HERE_CPU["device"]
    return written


def test_every_file_of_tests_is_in_a_step_and_every_step_has_its_files() -> None:
    named = {file for kind in ("test", "node") for step in steps(kind) for file in step.files}
    here = {path.relative_to(ROOT).as_posix() for path in (ROOT / HERE).glob("test_*.py")}
    assert here <= named and all((ROOT / file).is_file() for file in named)
    benches = {step.files[0] for step in steps("bench")}
    found = {f"tests.benchmarks.gpu.{path.stem}" for path in (ROOT / "tests/benchmarks/gpu").glob("bench_*.py")}
    assert benches == found


def test_the_marker_is_found_in_any_room() -> None:
    found = {file for step in marked() for file in step.files}
    assert "tests/rl/step/test_sampler_gap.py" in found
    assert not any(file.startswith(f"{HERE}/") for file in found)


def test_outcomes_are_told_with_their_reasons(tmp_path: Path) -> None:
    text = "def test_a(): pass\ndef test_b(): pytest.skip('no such thing here')\n"
    fine = run(tmp_path, text)
    assert (fine["verdict"], fine["said"], fine["passed"]) == ("pass", "1 passed, 1 skipped", 1)
    assert {name.rpartition("::")[2]: why for name, why in fine["skipped"].items()} == {"test_b": "no such thing here"}
    bad = run(tmp_path, "def test_a(): pass\ndef test_c(): assert 1 == 2\n")
    assert (bad["verdict"], len(bad["failed"])) == ("fail", 1) and "::test_c" in bad["said"]
    none = run(tmp_path, "def test_b(): pytest.skip('no such thing here')\n")
    assert none["verdict"] == "left out"
    broken = run(tmp_path, "import nothing_of_this_name\n")
    assert broken["verdict"] == "fail"


def test_a_step_that_hangs_is_killed_with_what_it_started(tmp_path: Path) -> None:
    wait = "[sys.executable, '-c', 'import signal; signal.pause()']"
    text = f"import subprocess, sys\ndef test_a(): subprocess.run({wait})\n"
    told = run(tmp_path, text, limit=4)
    assert (told["verdict"], told["said"]) == ("too long", "killed after 4 s")


def test_what_is_not_installed_is_left_out(tmp_path: Path) -> None:
    step = Step("x", "y", ("none",), needs=("a_package_that_is_not_there",))
    outcome = run_step(step, "test", HERE_CPU, tmp_path, limit=1)
    assert (outcome.verdict, outcome.said) == ("left out", "not installed: a_package_that_is_not_there")
    assert not outcome.is_bad


def test_a_gpu_is_never_claimed_on_a_cpu() -> None:
    refused = command("test", "head", device="cuda")
    if "finds no GPU" not in refused.stderr:
        pytest.skip("this machine has a GPU")
    assert refused.returncode == 1 and "DEVICE=cpu rehearses" in refused.stderr and "Traceback" not in refused.stderr
    unknown = command("test", "heads")
    assert unknown.returncode == 1 and "heads: no such step (known: packed, head" in unknown.stderr


def test_a_figure_of_a_cpu_is_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.benchmarks.gpu import figures

    monkeypatch.setattr(figures, "ON_GPU", False)
    found = figures.Figures.__new__(figures.Figures)
    found.rows, found.peak = [], figures.peak_flops("NVIDIA H100 80GB HBM3")
    found.add("speed", 3.0, "tokens/s", at_least=100.0)
    found.add_utilisation("use", 1e12, 1.0, at_least=45.0)
    assert found.rows == [
        {
            "name": "speed",
            "value": 3.0,
            "unit": "tokens/s",
            "threshold": "at least 100",
            "verdict": "not judged: a CPU",
        }
    ]
    monkeypatch.setattr(figures, "ON_GPU", True)
    found.peak = figures.peak_flops("NVIDIA H100 80GB HBM3")
    found.add_utilisation("use", 494.5e12, 1.0, at_least=45.0)
    found.add("idle", 12.0, "%", at_most=10.0)
    assert [(row["value"], row["verdict"]) for row in found.rows[1:]] == [(50.0, "pass"), (12.0, "miss")]
    assert figures.peak_flops("NVIDIA H100 PCIe") == 756e12 and figures.peak_flops("Quadro") is None


REHEARSED = [(kind, step.name) for kind in ("test", "bench") for step in steps(kind) if step.rehearsed]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "name"), REHEARSED)
def test_a_step_runs_on_a_cpu(kind: str, name: str, tmp_path: Path) -> None:
    """What nobody runs without a GPU must not break unseen."""
    done = command(kind, name, "--folder", str(tmp_path), "--limit", "1800")
    assert done.returncode == 0, done.stdout
    told = json.loads((tmp_path / f"{kind}-{name}.json").read_text())
    assert told["verdict"] in ("pass", "left out") and not told["is_gpu"] and "rehearsal" in told["device"]
    if kind == "bench":
        assert told["figures"] and not any(row.get("verdict") in ("pass", "miss") for row in told["figures"])
