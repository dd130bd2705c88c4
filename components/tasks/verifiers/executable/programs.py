"""Programs of the stack language: how many of the item's tests one passes."""

from __future__ import annotations

from typing import Any

from components.contract.params import Params
from components.tasks.answers import extract_answer
from components.tasks.domains.stack import MAX_OPERATIONS, OPERATIONS, Stack, is_program, run
from components.tasks.item import Item
from components.tasks.verify import RIGHT, BrokenItem, Verdict, wrong


class ProgramsVerifierConfig(Params):
    """How long a program may be."""

    max_operations: int = MAX_OPERATIONS
    """Longest program that counts; no longer one is run."""


def programs(item: Item, response: str, *, config: ProgramsVerifierConfig) -> Verdict:
    """Run the program on the tests `data["tests"]`; the score is the share that it passes.

    The interpreter is ours and total: a text is a program of known operations, which always ends, or it is WRONG.
    """
    tests = read_tests(item)
    program = "".join(extract_answer(response[-MAX_CHARS:]).split(" "))
    if not is_program(program):
        return wrong(f"no program of up to {MAX_OPERATIONS} operations {OPERATIONS}: {program[:40]!r}")
    if len(program) > config.max_operations:
        return wrong(f"{len(program)} operations, {config.max_operations} are allowed")
    passed = sum(run(program, given) == output for given, output in tests)
    if passed == len(tests):
        return RIGHT
    return wrong(f"{passed} of {len(tests)} tests passed", graded=passed / len(tests))


MAX_CHARS = 20_000
"""End of a response that is read."""


def read_tests(item: Item) -> list[tuple[Stack, int]]:
    """Return the inputs and the output of each test; raise BrokenItem for data that hold none."""
    tests: Any = item.data.get("tests")
    if not (isinstance(tests, list) and tests and all(_is_test(test) for test in tests)):
        raise BrokenItem(f"data.tests is no list of [inputs, output]: {tests!r:.80}")
    return [(tuple(given), output) for given, output in tests]


def _is_test(test: Any) -> bool:
    return (
        isinstance(test, list)
        and len(test) == 2
        and isinstance(test[0], list)
        and all(type(number) is int for number in (*test[0], test[1]))
    )
