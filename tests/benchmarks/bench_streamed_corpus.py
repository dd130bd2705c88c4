"""The streamed way through curate: rows a second and peak memory, with near duplicates and without.

    python -m tests.benchmarks.bench_streamed_corpus [--rows 100000] [--words 60] [--near 1] [--cores 1] [--part 50000]

Rows are those of bench_near_duplicates, of which a tenth are altered copies. The stage runs in a process of its own,
whose peak is VmHWM of /proc/self/status; what it holds before the first row is told beside it. `cpu_seconds` are
its own, without those of the processes that check rows on further cores. No checkpoints are kept.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from components.contract.context import Write
from components.contract.job import Resources
from components.curate.component import COMPONENT
from components.curate.run import run
from tests.benchmarks.bench_near_duplicates import _texts
from tests.benchmarks.script import run_script
from tests.support.stage_context import LocalContext


class WithoutCheckpoints(LocalContext):
    """A stage's context that keeps no checkpoints, and notes when the last part was checked."""

    sifted = 0.0

    def checkpoint(self, step: int, write: Write) -> None:
        """Keep nothing but the time; the checkpoint after picking has verdicts, and those of parts nothing."""
        aside = self.scratch / f"payload-{step}"
        aside.mkdir()
        write(aside)
        self.sifted = self.sifted if any(aside.iterdir()) else time.perf_counter()

    def progress(self, done: int, total: int, **metrics: float) -> None:
        """Keep nothing."""


def measure(rows: int, words: int, near: int, cores: int, part: int) -> dict[str, Any]:
    """Return seconds, rows a second and megabytes of one run of the stage."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "in.jsonl"
        with path.open("w", encoding="utf-8") as stream:
            for text in _texts(rows, words):
                stream.write(json.dumps({"text": text}) + "\n")
        size = path.stat().st_size
        own = [folder, str(near), str(cores), str(part)]
        command = [sys.executable, "-m", "tests.benchmarks.bench_streamed_corpus", "stage", *own]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[-1]
    found = json.loads(told)
    return {"rows": rows, "input_mb": round(size / 1e6, 1), **found, "rows_per_second": round(rows / found["seconds"])}


def stage(folder: Path, near: bool, cores: int, part: int) -> dict[str, Any]:
    """Run the stage on the rows of a folder."""
    source = {"name": "jsonl", "path": str(folder / "in.jsonl"), "columns": {"text": "text"}}
    params = {"kind": "corpus", "sources": [{"source": source, "domain": "web"}], "streamed": {"rows_per_part": part}}
    context = WithoutCheckpoints(
        COMPONENT, folder / "run", params={**params, "dedup": {"near": "on" if near else "off"}}
    )
    context.job = context.job.model_copy(update={"resources": Resources(cpus=cores)})
    before, started, used = peak_mb(), time.perf_counter(), time.process_time()
    run(context)
    return {
        "seconds": round(time.perf_counter() - started, 1),
        "sift_seconds": round(context.sifted - started, 1),
        "cpu_seconds": round(time.process_time() - used, 1),
        "kept": int(context.metrics["num_rows"]),
        "peak_mb": peak_mb(),
        "mb_before": before,
    }


def peak_mb() -> float:
    """Return the largest resident set of this process so far."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return round(int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024, 1)


if __name__ == "__main__":
    if sys.argv[1:2] == ["stage"]:
        print(json.dumps(stage(Path(sys.argv[2]), sys.argv[3] == "1", int(sys.argv[4]), int(sys.argv[5]))))
    else:
        run_script(__doc__, measure, rows=100_000, words=60, near=1, cores=1, part=50_000)
