"""How many of its tests a program passes: they run in the sandbox, and results are compared outside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from components.runtime.sandbox import Reply, Status
from components.tasks.programs.languages import Results, Run, find_language, results_of
from components.tasks.programs.suite import Suite
from components.tasks.sandboxed import Request, describe
from components.tasks.verdict import Verdict

SHOWN = 120


@dataclass
class Grade:
    """The results of a program's tests."""

    passed: int
    total: int
    note: str = ""
    """How the first failed test went."""
    timed_out: bool = False
    """Whether a run timed out: another try might pass."""

    @property
    def share(self) -> float:
        """Return the share of tests that were passed, 0 to 1."""
        return self.passed / self.total


class Grading:
    """Runs one program on its tests, one run of the sandbox at a time.

    Tests that may share a run do so under the deadline of one; if that run fails, each gets its own. So
    no test exceeds its time, and none fails because of another.
    """

    def __init__(self, source: str, suite: Suite, then: Callable[[Grade], Verdict]) -> None:
        self._language = find_language(suite)
        self._source, self._suite, self._then = f"{suite.prefix}\n{source}" if suite.prefix else source, suite, then
        rows = range(len(suite.tests))
        together = suite.kind in self._language.together
        self._queue: list[Sequence[int]] = [rows] if together else [[row] for row in rows]
        self._passed: dict[int, bool] = {}
        self._notes: dict[int, str] = {}
        self._spent, self._timed_out = 0.0, False

    def go_on(self) -> Verdict | Request:
        """Return the next run, or the verdict of the grade."""
        left = self._suite.limits.total_seconds - self._spent
        if self._queue and left <= 0:
            self._fail([row for rows in self._queue for row in rows], "was not come to: the time for all tests is over")
            self._queue, self._timed_out = [], True
        if not self._queue:
            first = min(self._notes, default=None)
            note = "" if first is None else f"test {first + 1} {self._notes[first]}"
            passed = sum(self._passed.values())
            return self._then(Grade(passed, len(self._suite.tests), note, self._timed_out))
        run = self._language.make(self._source, self._suite, [self._suite.tests[row] for row in self._queue[0]])
        limits = replace(run.limits, seconds=min(run.limits.seconds, max(left, 0.05)))
        return Request(run.function, run.argument, lambda reply: self._take(run, reply), limits, tools=run.tools)

    def _take(self, run: Run, reply: Reply) -> Verdict | Request:
        rows, *self._queue = self._queue
        self._spent += reply.seconds
        found = results_of(run, reply, len(rows))
        if found is not None:
            self._compare(rows, found)
        elif len(rows) > 1 and reply.status is not Status.RAISED:
            self._queue = [[row] for row in rows]
        else:
            self._timed_out |= reply.status is Status.TIMEOUT
            self._fail(rows, describe(reply) if reply.status is not Status.VALUE else "gave nothing that can be read")
        return self.go_on()

    def _compare(self, rows: Sequence[int], found: Results) -> None:
        for row, result in zip(rows, found, strict=True):
            if "value" not in result:
                self._fail([row], f"raised {str(result.get('raised'))[:SHOWN]}")
            elif self._suite.tests[row].is_met(result["value"], self._suite.tolerance):
                self._passed[row] = True
            else:
                self._fail([row], f"gave {str(result['value'])[:SHOWN]!r}")

    def _fail(self, rows: Sequence[int], note: str) -> None:
        for row in rows:
            self._passed[row], self._notes[row] = False, note
