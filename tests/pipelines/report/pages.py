"""Writes a page of each kind of report into a folder, for tests that look at them in a browser.

python -m tests.pipelines.report.pages FOLDER
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from components.runtime.costs.amounts import Rate
from components.runtime.costs.attempts import Attempt
from pipelines.methods.page.page import draw
from pipelines.plan.costs import RunCost, StageCost
from pipelines.report.page import render_page
from pipelines.report.several.page import render_sides
from pipelines.report.several.sides import Side
from tests.pipelines.methods.made_records import methods
from tests.pipelines.report.made import MadeRun, lines

RATE = Rate("l4x1", 8, 1, 0.8, "EUR")
ALARM = {"name": "loss_exploded", "since": 2, "text": "the loss is 12", "helps": "lower the rate", "cleared": None}


def cost(run: MadeRun) -> RunCost:
    """Return what the stages of a run cost that took an hour each, on a GPU."""
    fixed = {"run_id": "r", "attempt": "1", "started": datetime(2026, 1, 1, tzinfo=UTC), "end": "succeeded"}
    holds = {"pool": "l4x1", "nodes": 1, "processes": 1, "gpus": 1, "cpus": 8, "cpu_seconds": 5000.0}
    tries = (Attempt.model_validate({**fixed, **holds, "stage": stage.name, "seconds": 3600}) for stage in run.stages)
    return RunCost({one.stage: StageCost(one.stage, {}, (one,), RATE, RATE.amount(3000)) for one in tries})


def chain(folder: Path) -> MadeRun:
    """Return a run with samples, an alarm, a failure, an open question and an operator's digest."""
    run = MadeRun(folder, "chain-1")
    run.train([3.0, 2.0, 12.0], params={"reward": f"f.py:f@{'ab' * 32}"}).alarms = [ALARM]
    seen = run.evaluate({"sums": [0, 1, 4], "spelling": [2, 2, 3]}, source="sft")
    rows = [
        {"prompt_id": f"sums-{place}", "domain": "sums", "prompt": "1+1=", "response": text, "reward": right / 1.0}
        | {"correct": bool(right), "answer": "2", "reason": "as it should be" if right else "another number"}
        for place, (text, right) in enumerate([("2", 1), ("<b>3</b>", 0)])
    ]
    (seen.files["metrics"] / "samples.jsonl").write_text(lines(rows))
    run.add("rl", "rl", ended=False, error=f"artifact {'cd' * 32} is damaged")
    run.add("publish", "evaluate", ended=False).question = "Publish it?"
    return run


def matrix(folder: Path, name: str = "matrix-1", better: int = 0) -> MadeRun:
    """Return a matrix over two rates and two seeds."""
    run = MadeRun(folder, name)
    run.train([3.0, 2.0], group="base")
    run.evaluate({"sums": [0, 1, 0]}, group="eval-base", source="base")
    for rate in (1, 2):
        for seed in (0, 1):
            labels = {"rate": rate, "seed": seed}
            made = run.train([3.0, 2.0 + seed], labels, source="base", params={"rate": rate})
            run.evaluate({"sums": [rate, seed + better, 2]}, labels, source=made.name)
    return run


def rounds(folder: Path) -> MadeRun:
    """Return three rounds of a repeat."""
    run = MadeRun(folder, "rounds-1")
    for number in (1, 2, 3):
        made = run.train([3.0, 2.0], {"round": number}, group="loop.sft", name=f"loop-{number}-sft")
        labels = {"round": number}
        run.evaluate({"sums": [number]}, labels, group="loop.eval", name=f"loop-{number}-eval", source=made.name)
    return run


def pages(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the name and the HTML of each kind of page; `folder` takes the files of the runs."""
    for make in (chain, matrix, rounds):
        run = make(folder)
        data = run.data
        data.cost = cost(run)
        yield make.__name__, render_page(data)
    sides = [Side(matrix(folder, name, place).data, {}) for place, name in enumerate(("one", "two"))]
    yield "several", render_sides(sides)
    yield "methods", draw(methods(), {"canon": ["the recipe requests other work"]}, {"rover": ["rover-1"]})


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        for name, page in pages(Path(made)):
            Path(sys.argv[1], f"{name}.html").write_text(page, encoding="utf-8")
