"""One gate worker for the whole session, because starting one takes seconds."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from components.contract.job import Expectation
from components.runtime.gates import GateProcess, GateResult

Row = dict[str, Any]


@pytest.fixture(scope="session")
def worker() -> Iterator[GateProcess]:
    """A running worker."""
    with GateProcess() as gates:
        yield gates


@dataclass
class Gate:
    """Writes rows and has them checked."""

    worker: GateProcess
    folder: Path

    @property
    def report(self) -> Path:
        """Return where the last report is."""
        return self.folder / "report"

    def __call__(self, kind: str, rows: list[Row], *expectations: Expectation) -> GateResult:
        """Check rows as output "dataset"."""
        write_rows(self.folder, rows)
        return self.worker.check("dataset", self.folder, kind, list(expectations), self.report)


@pytest.fixture
def gate(worker: GateProcess, tmp_path: Path) -> Gate:
    """The session's worker on a folder of the test."""
    return Gate(worker, tmp_path)


@pytest.fixture
def expect() -> Callable[..., Expectation]:
    """Build an expectation on the output "dataset"."""

    def build(type: str, **kwargs: Any) -> Expectation:
        return Expectation(port="dataset", type=type, kwargs=kwargs)

    return build


def write_rows(folder: Path, rows: list[Row]) -> None:
    """Write rows.jsonl."""
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def prompts(count: int) -> list[Row]:
    """Return good rows of kind prompts."""
    return [
        {
            "id": f"sum-{number}",
            "domain": "sum",
            "prompt": f"What is {number} + 1?",
            "answer": str(number + 1),
            "verifier": "numeric",
            "data": {"terms": [number, 1], "difficulty": {"depth": number % 3}},
            "pass_rate": 0.5,
        }
        for number in range(count)
    ]


def demonstrations(count: int) -> list[Row]:
    """Return good rows of kind demonstrations."""
    return [{**row, "response": f"<think>...<answer>{row['answer']}", "quality": "gold"} for row in prompts(count)]


def corpus(count: int) -> list[Row]:
    """Return good rows of kind corpus."""
    return [{"id": f"text-{number}", "domain": "sum", "text": f"{number}+1={number + 1}"} for number in range(count)]


def rollouts(count: int) -> list[Row]:
    """Return good rows of kind rollouts: one judged wrong with an empty response, one not judged at all."""
    rows = [
        {
            "prompt_id": row["id"],
            "domain": "sum",
            "step": number,
            "prompt": row["prompt"],
            "response": row["answer"],
            "reward": 1.0,
            "outcome": "right",
            "num_tokens": 3,
            "verifier": "numeric",
            "answer": row["answer"],
            "data": {},
        }
        for number, row in enumerate(prompts(count))
    ]
    rows[0] |= {"response": "", "outcome": "wrong", "reward": 0.0}
    rows[1] |= {"outcome": "failed", "reward": None}
    return rows
