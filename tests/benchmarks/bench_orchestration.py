"""What posttrain itself takes of a run: executed stages, cached ones, and the delivery of lineage.

    python -m tests.benchmarks.bench_orchestration [--stages 50] [--cached 4] [--milliseconds 0] [--json FILE]

All is CPU time of everything that a command started, whoever waited for it: this process adopts what outlives the
command, such as the fork server and the deliverer. `per executed stage` is what a run of many stages takes beyond one
of a single stage, by the number of the others, and beyond the `milliseconds` of CPU time that each works. `adds 2 % to`
is how long a stage has to work for that to be 2 % of its work. 300 stages of work on two cores: `--stages 300
--milliseconds 300 --cached 0`. The machine's CPU is in the result: the ratios hold on any, the seconds on this one.
"""

from __future__ import annotations

import ctypes
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.benchmarks.script import run_script

DRIVER = """
import sys, tests.benchmarks.orchestration_stage
from pipelines.cli import main
sys.exit(main(sys.argv[1:]))
"""
PR_SET_CHILD_SUBREAPER = 36
SMALL = {
    "base_steps": 2,
    "sft_steps": 2,
    "rl_steps": 2,
    "replay_steps": 2,
    "corpus_rows": 200,
    "demo_rows": 96,
    "prompt_rows": 32,
    "eval_rows": 8,
    "eval_samples": 2,
}
"""Sizes of a quickstart that takes seconds: cached, it costs as much as any other."""


def compare(stages: int, cached: int, milliseconds: int) -> dict[str, Any]:
    """Return CPU seconds of runs with and without work, with lineage delivered live and later."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "this system does not let a process adopt others")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        own = milliseconds / 1000
        one, many = (_run(root, _recipe(root, number, own)) for number in (1, stages))
        each = (many["CPU s"] - one["CPU s"]) / (stages - 1) - own
        again = _run(root, _recipe(root, stages, own))
        start = _quickstart()
        if cached:
            _command([*start, "--store", str(root / "quick" / "store")], {"POSTTRAIN_LINEAGE": "live"})
        repeated = [_command([*start, "--store", str(root / "quick" / "store")], {}) for _ in range(cached)]
        return {
            "cpu": _cpu_name(),
            "stages": stages,
            "CPU s that each works": own,
            "run of one stage": one,
            "run of all stages": many,
            "per executed stage, CPU s": round(each, 3),
            "adds 2 % to a stage of, CPU s": round(each / 0.02, 1),
            **({"share of its own work": round(each / own, 3)} if own else {}),
            "the same, cached": again,
            "per cached stage, CPU s": round(again["CPU s"] / stages, 4),
            "quickstart cached, lineage live, one after another": repeated,
        }


def _run(root: Path, recipe: Path) -> dict[str, float]:
    store = root / recipe.stem / "store"
    return _command(["run", str(recipe), "--store", str(store), "--jobs", "2"], {"POSTTRAIN_LINEAGE": "later"})


def _recipe(root: Path, stages: int, seconds: float) -> Path:
    lines = [f"name: many-{stages}", "summary: Stages that keep a core busy", "seed: 1", "stages:"]
    lines += [
        f"  s{number}: {{uses: work-for-benchmark, {_after(number)}with: {{number: {number}, seconds: {seconds}}}}}"
        for number in range(stages)
    ]
    path = root / f"many-{stages}.yaml"
    path.write_text("\n".join(lines) + "\n")
    return path


def _after(number: int) -> str:
    return f"in: {{before: s{number - 1}.model}}, " if number % 10 else ""


def _quickstart() -> list[str]:
    sizes = [part for name, value in SMALL.items() for part in ("--set", f"{name}={value}")]
    return ["run", "quickstart", *sizes]


def _command(arguments: list[str], variables: Mapping[str, str]) -> dict[str, float]:
    """Return wall seconds of a command, and CPU seconds of it and of all that it started, once all has ended."""
    before, started = _children_cpu(), time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", DRIVER, *arguments],
        check=True,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "OMP_NUM_THREADS": "1", **variables},
    )
    wall = time.perf_counter() - started
    while True:
        try:
            os.wait()
        except ChildProcessError:
            break
    return {"wall s": round(wall, 2), "CPU s": round(_children_cpu() - before, 2)}


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _cpu_name() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return "unknown"


if __name__ == "__main__":
    run_script(__doc__, compare, stages=50, cached=4, milliseconds=0)
