"""What list, show and lineage cost on a store of many runs, and plan on a recipe of many stages.

    python -m tests.benchmarks.bench_listing [--runs 2000] [--bucket-runs 2000] [--stages 300] [--json FILE]

Each command runs as people run it, in a process of its own. `share` is its CPU time by that of reading every record of
the ledger once, in the same process that wrote them; seconds are for information, since machines differ. On the bucket,
a server in this process whose own time does not count, what matters is the number of requests: each is a round trip.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from components.runtime.ledger.ledger import load_run
from components.runtime.ledger.run_list import list_runs, newest_runs
from components.runtime.lineage.graph.graph import ancestors, descendants
from components.runtime.store import open_store
from components.runtime.store.s3_calls import S3Calls
from tests.benchmarks.script import run_script
from tests.support.full_store import FullStore, write_below
from tests.support.s3_server import in_memory_writer, local_s3, make_bucket, s3_environment

BUCKET = "listing"
TRIES = 3


def compare(runs: int, bucket_runs: int, stages: int) -> dict[str, Any]:
    """Return seconds and shares of every command on a directory, and the requests of each on a bucket."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        full = FullStore(write_below(root / "store"), str(root / "store"))
        full.fill(runs)
        return {
            "runs": runs,
            "directory": _on_directory(full, root / "store"),
            "plan": {"stages": stages, **_planned(root, stages)},
            "bucket": {"runs": bucket_runs, **_on_bucket(root, bucket_runs)},
        }


def _on_directory(full: FullStore, store: Path) -> dict[str, Any]:
    started = time.process_time()
    opened = open_store(str(store))
    for key in opened.keys("ledger/"):
        opened.get(key)
    everything = time.process_time() - started
    middle = full.run_ids[len(full.run_ids) // 2]
    commands = {
        "list": ["list"],
        "list --json": ["list", "--json"],
        "show latest": ["show", "latest"],
        "show RUN": ["show", middle],
        "lineage": ["lineage", f"{middle}:second.model"],
        "lineage --descendants": ["lineage", "--descendants", full.outputs[middle, "base"]["digest"]],
    }
    found: dict[str, Any] = {"every record once, CPU s": round(everything, 3)}
    for name, arguments in commands.items():
        told = _timed(arguments, {"POSTTRAIN_STORE": str(store)})
        found[name] = {**told, "share": round(told["CPU s"] / everything, 3)}
    return found


def _planned(root: Path, stages: int) -> dict[str, Any]:
    lines = ["name: long", "summary: Many stages", "seed: 1", "stages:"]
    lines += ["  base: {uses: pretrain, in: {dataset: ./data.jsonl}, with: {steps: 10}}"]
    before = "base"
    for number in range(stages - 1):
        lines.append(
            f"  s{number}: {{uses: sft, in: {{model: {before}.model, dataset: ./data.jsonl}}, with: {{epochs: 1}}}}"
        )
        before = f"s{number}"
    (root / "data.jsonl").write_text('{"prompt": "1 + 1", "response": "2"}\n')
    (root / "long.yaml").write_text("\n".join(lines) + "\n")
    return _timed(["plan", str(root / "long.yaml")], {"POSTTRAIN_STORE": str(root / "empty")})


def _timed(arguments: list[str], variables: Mapping[str, str]) -> dict[str, float]:
    """Return the least wall and CPU seconds of a few tries."""
    walls, cpus = [], []
    for _ in range(TRIES):
        before, started = _children_cpu(), time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "pipelines.cli", *arguments],
            check=True,
            stdout=subprocess.DEVNULL,
            env={**os.environ, **variables},
        )
        walls.append(time.perf_counter() - started)
        cpus.append(_children_cpu() - before)
    return {"wall s": round(min(walls), 3), "CPU s": round(min(cpus), 3)}


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _on_bucket(root: Path, runs: int) -> dict[str, Any]:
    with local_s3() as endpoint:
        make_bucket(endpoint, BUCKET)
        os.environ.update(s3_environment(endpoint, root / "cache"))
        uri = f"s3://{BUCKET}/store"
        full = FullStore(in_memory_writer(BUCKET, "store"), uri)
        full.fill(runs)
        middle = full.run_ids[runs // 2]
        calls = {
            "list": lambda: newest_runs(open_store(uri), 20),
            "show RUN": lambda: load_run(open_store(uri), middle),
            "lineage": lambda: ancestors(open_store(uri), f"{middle}:second.model"),
            "list --json, without an index": lambda: list_runs(open_store(uri)),
            "list --json": lambda: list_runs(open_store(uri)),
            "lineage --descendants": lambda: descendants(open_store(uri), full.outputs[middle, "base"]["digest"]),
        }
        found = {}
        for name, call in calls.items():
            with counted_calls() as count:
                call()
            found[name] = {"requests": len(count)}
        listed = _timed(["list"], {"POSTTRAIN_STORE": uri})
        found["list"]["CPU s of the command"] = listed["CPU s"]
        return found


@contextmanager
def counted_calls() -> Iterator[list[None]]:
    """Yield a list that grows by one for each request to S3."""
    count: list[None] = []
    original = S3Calls.run

    def run(self: S3Calls, *arguments: Any, **options: Any) -> Any:
        count.append(None)
        return original(self, *arguments, **options)

    S3Calls.run = run  # type: ignore[method-assign]
    try:
        yield count
    finally:
        S3Calls.run = original  # type: ignore[method-assign]


if __name__ == "__main__":
    run_script(__doc__, compare, runs=2000, bucket_runs=2000, stages=300)
