"""Speed of verifier `code_tests`: short Python programs with 8 tests each, judged in the sandbox, on one core.

Run as a script for the figures: `python -m tests.benchmarks.bench_code_tests --json out.json`. The programs are those
of source `python_programs`, of which three steps in ten are mistaken, in groups of 8 for each task as RL has them.
`first` counts the checks that each task's reference passes its tests, one for every 8 programs; `again` does not, as
from the second time on that a task is met. `per_second` is by wall clock, from the fastest try; `per_cpu_second` counts
processor time of this process and of the sandbox, and so holds on a busy machine too. The target is 200 a second.
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path
from typing import Any

import pytest

from components.contract.operators import OperatorSpec
from components.tasks.item import Item
from components.tasks.source import SourceRequest, SourceRow
from components.tasks.verifiers import code_tests
from components.tasks.verify import Outcome, count_outcomes, verify, verify_all
from tests.benchmarks.bench_sandbox import processor_seconds
from tests.benchmarks.script import run_script

GROUP, ERROR_RATE, TRIES = 8, 0.3, 3


def compare(tasks: int) -> dict[str, Any]:
    """Return programs judged in a second, with and without the checks of their references."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        pairs = _programs(tasks)
        verify(*pairs[0])  # opens the sandbox
        found: dict[str, list[tuple[float, float]]] = {"first": [], "again": []}
        for _ in range(TRIES):
            code_tests._references.clear()
            for rates in found.values():
                rates.append(_rates(pairs))
        outcomes = count_outcomes(verify_all(pairs))
    finally:
        os.sched_setaffinity(0, cores)
    figures = {
        name: {"per_second": round(max(rates)[0], 1), "per_cpu_second": round(max(rate for _, rate in rates), 1)}
        for name, rates in found.items()
    }
    return {"programs": len(pairs), "right": outcomes[Outcome.RIGHT], "failed": outcomes[Outcome.FAILED], **figures}


def _programs(tasks: int) -> list[tuple[Item, str]]:
    source = OperatorSpec(name="python_programs").resolve("source")
    writer = OperatorSpec.model_validate({"name": "python_programs", "error_rate": ERROR_RATE}).resolve("demonstrator")
    rows = source(SourceRequest(seed=0, limit=tasks, scratch=Path())).rows
    items = [row.item("python") for row in rows if isinstance(row, SourceRow)]
    rng = random.Random(0)
    return [(item, writer(item, rng)) for item in items for _ in range(GROUP)]


def _rates(pairs: list[tuple[Item, str]]) -> tuple[float, float]:
    """Return programs a second, and programs a second of processor time."""
    cpu, began = processor_seconds(), time.perf_counter()
    verify_all(pairs)
    return len(pairs) / (time.perf_counter() - began), len(pairs) / (processor_seconds() - cpu)


@pytest.mark.benchmark
def test_two_hundred_short_programs_are_judged_in_a_second_of_a_core() -> None:
    figures = compare(32)
    assert figures["failed"] == 0 and figures["again"]["per_cpu_second"] >= 200, figures


if __name__ == "__main__":
    run_script(__doc__, compare, tasks=64)
