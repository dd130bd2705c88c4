"""Benches of circuits, written in steps, simulated with the reference, repaired by the log, and kept by coverage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from pydantic import Field, model_validator

from components.synthesize.asking import ask
from components.synthesize.config import GeneratorConfig, Kind
from components.synthesize.context import GeneratorContext
from components.synthesize.made import Dropped, Made
from components.synthesize.parsing import unusable
from components.synthesize.sifting import OVER_CAP
from components.synthesize.templates import check_template
from components.synthesize.writers import Text, Writers
from components.tasks.domains.testbenches import coverage, simulate, vectors_of
from components.tasks.item import Item

UNCOVERED, REFERENCE_FAILS, NO_TESTS, NOT_A_CIRCUIT = "uncovered", "reference_fails", "no_tests", "not_a_circuit"


class TestbenchConfig(GeneratorConfig):
    """How benches are asked for, and which are kept."""

    kind: ClassVar[Kind] = "prompts"
    points: str = "{prompt}\nCode:\n{answer}\nWhich inputs should a test try? One vector of bits a line."
    """First request; {prompt} and {answer} are replaced."""
    bench: str = "{prompt}\nCode:\n{answer}\nInputs:\n{points}\nWrite each input and the output that is due: 010 1"
    """Second request; {points} is what the first one gave."""
    repair: str = "{prompt}\nCode:\n{answer}\nBench:\n{bench}\nThe simulator says:\n{log}\nWrite the bench again."
    """Request after a simulation with errors; {bench} and {log} are replaced."""
    repair_rounds: int = Field(default=3, ge=0)
    """Most repairs of a bench."""
    min_coverage: float = Field(default=0.9, ge=0, le=1)
    """Least toggle coverage of a bench that is kept, over inputs and gates of the reference."""
    max_points: int | None = Field(default=None, ge=1)
    """Most points of a bench, the first ones; null keeps all. Few make a weak suite; coverage is measured after."""

    @model_validator(mode="after")
    def _are_whole(self) -> TestbenchConfig:
        check_template("points", self.points, needs=("prompt", "answer"))
        check_template("bench", self.bench, needs=("answer", "points"), may=("prompt",))
        check_template("repair", self.repair, needs=("answer", "bench", "log"), may=("prompt",))
        return self


@dataclass
class Attempt:
    """One bench of an item on its way."""

    item: Item
    request: Item
    """What the writer is asked next."""
    points: list[str] = field(default_factory=list)
    """Of the bench that the reference passes."""
    reason: str | None = None
    """Why there is no bench."""

    @property
    def is_open(self) -> bool:
        """Return whether a bench is still to be written, or written again."""
        return not self.points and self.reason is None


def testbench(
    items: Sequence[Item], writers: Writers, context: GeneratorContext, *, config: TestbenchConfig
) -> Iterator[Made | Dropped]:
    """Yield each circuit with the first bench of its writers that the reference passes and that covers enough.

    Points are `data["bench"]`, which verifier `bench_points` reads; the item stays as it is. Rows of source circuits in
    gates alone; a writer's bench is data and nothing of it is run. Source: VeriPrefer (arXiv:2504.15804): points, then
    the bench, then repairs by the simulator's log, then a threshold of coverage. Reconstructed: the threshold, and
    toggles as what is covered.
    """
    circuits = [item for item in items if item.verifier == "circuits"]
    yield from [Dropped(NOT_A_CIRCUIT)] * (len(items) - len(circuits))
    asked = [ask(item, "points", config.points) for item in circuits]
    listed = writers.write(asked, context.drawing(config, "points"))
    tried = [[_begun(item, one, config) for one in texts] for item, texts in zip(circuits, listed, strict=True)]
    for turn in range(config.repair_rounds + 1):
        left = [attempt for own in tried for attempt in own if attempt.is_open]
        drawing = context.drawing(config, f"bench {turn}", num_samples=1)
        for attempt, texts in zip(left, writers.write([one.request for one in left], drawing), strict=True):
            _simulated(attempt, texts[0], config)
    for item, own in zip(circuits, tried, strict=True):
        first = next((attempt for attempt in own if attempt.points), None)
        for attempt in own:
            if attempt is first:
                data = {**item.data, "bench": attempt.points}
                yield Made(item.model_copy(update={"data": data}), None, {"points": len(attempt.points)})
            else:
                yield Dropped(OVER_CAP if attempt.points else attempt.reason or REFERENCE_FAILS)


def _begun(item: Item, listed: Text | None, config: TestbenchConfig) -> Attempt:
    reason = unusable(listed)
    vectors = [] if reason or listed is None else vectors_of(listed.text, len(item.data["names"]))
    if not (vectors := vectors[: config.max_points]):
        return Attempt(item, item, reason=reason or NO_TESTS)
    return Attempt(item, ask(item, "bench", config.bench, shown={"points": "\n".join(vectors)}))


def _simulated(attempt: Attempt, written: Text | None, config: TestbenchConfig) -> None:
    """Take a bench that the reference passes, or ask for it again with the simulator's log."""
    attempt.reason = unusable(written)
    if attempt.reason or written is None:
        return
    item = attempt.item
    points, log = simulate(written.text, item.answer, item.data["names"])
    if log or not points:
        shown = {"bench": written.text, "log": "\n".join(log) or "no point"}
        attempt.request = ask(item, "repair", config.repair, shown=shown)
    elif coverage(points[: config.max_points], item.answer, item.data["names"]) < config.min_coverage:
        attempt.reason = UNCOVERED
    else:
        attempt.points = points[: config.max_points]
