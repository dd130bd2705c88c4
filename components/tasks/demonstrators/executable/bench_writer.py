"""An engineer who writes benches of circuits: test points, what is due at each, and repairs by a simulator's log."""

from __future__ import annotations

import random
import re

from pydantic import Field

from components.contract.errors import InputError
from components.contract.params import Params
from components.tasks.domains.circuits import evaluate
from components.tasks.domains.testbenches import output, vectors_of
from components.tasks.item import Item

FLIPPED = {"0": "1", "1": "0"}
LOGGED = re.compile(r"line (\d{1,4}):")


class BenchWriterConfig(Params):
    """How many points the engineer thinks of, and how often an expectation is mistaken."""

    points: int = Field(default=8, ge=1, le=256)
    """Test points, drawn without repetition; all there are where there are fewer."""
    error_rate: float = Field(default=0.0, ge=0, le=1)
    """Probability that the output written for a point is not the reference's; in a repair again."""


def bench_writer(item: Item, rng: random.Random, *, config: BenchWriterConfig) -> str:
    """Write what generator `testbench` asks for, by `data["request"]`: points, a bench, or a bench repaired.

    points: a vector a line. bench: `010 1`, each vector of `data["points"]` with its output. repair: `data["bench"]`,
    the lines that `data["log"]` names written anew. The reference is the item's answer.
    """
    names, request = item.data.get("names"), item.data.get("request")
    column = evaluate(item.answer, names) if isinstance(names, str) and names else None
    if not isinstance(names, str) or column is None or request not in ("points", "bench", "repair"):
        raise InputError(
            f"demonstrator bench_writer: item {item.id} is no request of generator testbench for a circuit of gates"
        )
    if request == "points":
        rows = rng.sample(range(1 << len(names)), min(config.points, 1 << len(names)))
        return "\n".join(f"{row:0{len(names)}b}" for row in rows)
    if request == "bench":
        return "\n".join(_line(vector, column, rng, config) for vector in vectors_of(_told(item, "points"), len(names)))
    named = {int(number) for number in LOGGED.findall(_told(item, "log"))}
    lines = enumerate(_told(item, "bench").splitlines(), 1)
    kept = [
        (number, line) for number, line in lines if number not in named or vectors_of(line[: len(names)], len(names))
    ]
    return "\n".join(
        _line(line[: len(names)], column, rng, config) if number in named else line for number, line in kept
    )


def _line(vector: str, column: int, rng: random.Random, config: BenchWriterConfig) -> str:
    due = output(column, vector)
    return f"{vector} {FLIPPED[due] if rng.random() < config.error_rate else due}"


def _told(item: Item, name: str) -> str:
    return str(item.data.get(name, ""))
