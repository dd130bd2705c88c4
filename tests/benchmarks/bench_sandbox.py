"""Speed of the sandbox: runs of a three-line program on one core, against a Python of its own for each (`subprocess`).

Run as a script for the figures: `python -m tests.benchmarks.bench_sandbox --json out.json`. Both are measured in one
run, by turns, on one core that they share with this process. `per_second` is by wall clock, from the fastest try;
`per_cpu_second` counts processor time of this process and all that it started, and so holds on a busy machine too;
`ratio` is the first of the sandbox over that of `subprocess`, `cpu_ratio` the second. The target is 200 a second.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from components.contract.errors import InputError
from components.runtime.sandbox import RUN_PYTHON, Sandbox, Status, open_sandbox
from components.runtime.sandbox.backends import SETTING, usable_backend
from components.runtime.sandbox.inside.watch import descendants
from components.runtime.sandbox.launch import BACKENDS
from tests.benchmarks.script import run_script

PROGRAM = "a = 6\nb = a * 7\nprint(b)\n"
TRIES = 5


def compare(runs: int = 100) -> dict[str, Any]:
    """Return what each way does in a second, for every backend of this machine."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        return {"runs": runs, **{backend: _backend(backend, runs) for backend in _backends()}}
    finally:
        os.sched_setaffinity(0, cores)


def _backend(backend: str, runs: int) -> dict[str, Any]:
    os.environ[SETTING] = backend
    sandboxed, plain = [], []
    try:
        for _ in range(TRIES):
            with open_sandbox(servers=1) as sandbox:
                _run(sandbox)
                sandboxed.append(_measure(partial(_run, sandbox), runs))
            plain.append(_measure(_subprocess, max(1, runs // 10)))
    finally:
        del os.environ[SETTING]
    best = {name: [max(one[at] for one in tries) for at in (0, 1)] for name, tries in (("s", sandboxed), ("p", plain))}
    return {
        "per_second": round(best["s"][0], 1),
        "per_cpu_second": round(best["s"][1], 1),
        "subprocess_per_second": round(best["p"][0], 1),
        "subprocess_per_cpu_second": round(best["p"][1], 1),
        "ratio": round(best["s"][0] / best["p"][0], 2),
        "cpu_ratio": round(best["s"][1] / best["p"][1], 2),
    }


def _measure(work: Callable[[], None], runs: int) -> tuple[float, float]:
    """Return runs a second, and runs a second of processor time."""
    cpu, began = processor_seconds(), time.perf_counter()
    for _ in range(runs):
        work()
    seconds = time.perf_counter() - began
    return runs / seconds, runs / (processor_seconds() - cpu)


def processor_seconds() -> float:
    """Return the processor time of this process and of all below it, living and ended."""
    ticks = 0
    for pid in (os.getpid(), *descendants()):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += sum(int(field) for field in fields[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


def _run(sandbox: Sandbox) -> None:
    reply = sandbox.call(RUN_PYTHON, {"source": PROGRAM})
    assert (reply.status, reply.stdout) == (Status.VALUE, "42\n"), reply


def _subprocess() -> None:
    executable = Path(os.path.realpath(sys.executable))
    done = subprocess.run([executable, "-I", "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout == "42\n"


def _backends() -> list[str]:
    found = []
    for backend in BACKENDS:
        os.environ[SETTING] = backend
        try:
            found.append(usable_backend())
        except InputError:
            continue
        finally:
            del os.environ[SETTING]
    return found


@pytest.mark.benchmark
def test_sandbox_runs_more_programs_than_a_python_for_each():
    figures = compare(50)
    for backend in _backends():
        assert figures[backend]["cpu_ratio"] > 1, figures


if __name__ == "__main__":
    run_script(__doc__, compare, runs=100)
