"""The tests of a program, as an item's data holds them, and the comparison of results with expectations."""

from __future__ import annotations

import math
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from components.contract.errors import schema_problems
from components.tasks.item import Item
from components.tasks.programs.written_tests import as_tests
from components.tasks.verdict import BrokenItem

MAX_TESTS = 1_000


class _Data(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, use_attribute_docstrings=True)


class ProgramLimits(_Data):
    """A program's limits."""

    seconds: float = Field(default=2.0, gt=0, le=60, strict=False)
    """For each test."""
    total_seconds: float = Field(default=20.0, gt=0, le=600, strict=False)
    """For all tests of one program; tests not reached by then count as failed."""
    memory_mb: int = Field(default=512, ge=16, le=16_384)
    """Memory of the program."""


class ProgramTest(_Data):
    """One test: a call of the entry point, a run with input, or the rows of a query. `expected` stays outside."""

    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    expected: Any = None
    """What the call returns: JSON; lists stand for tuples and, sorted, for sets."""
    stdin: str | None = None
    stdout: str | None = None
    """What a run with `stdin` prints, ignoring white space at the ends of lines and of the text."""
    setup: str = ""
    """SQL that creates the tables, before the database becomes read-only for the query."""
    rows: list[list[Any]] | None = None
    """What the query returns."""
    ordered: bool = False
    """Whether the order of rows counts."""

    @model_validator(mode="after")
    def _is_one_kind(self) -> ProgramTest:
        if ("expected" in self.model_fields_set) + (self.stdout is not None) + (self.rows is not None) != 1:
            raise ValueError("a test holds one of expected, stdout and rows")
        return self

    @property
    def kind(self) -> str:
        """Return call, run or query."""
        return "run" if self.stdout is not None else "query" if self.rows is not None else "call"

    def is_met(self, given: Any, tolerance: float) -> bool:
        """Return whether a value (text for a run, rows for a query) is the expected one. Never raises."""
        if self.stdout is not None:
            return isinstance(given, str) and _lines(given) == _lines(self.stdout)
        if self.rows is None:
            return equal(self.expected, given, tolerance)
        if not isinstance(given, list):
            return False
        expected = self.rows
        if not self.ordered:
            expected, given = sorted(expected, key=repr), sorted(given, key=repr)
        return equal(expected, given, tolerance)


class Suite(_Data):
    """All of an item's data for verifier code_tests."""

    tests: list[ProgramTest] = Field(min_length=1, max_length=MAX_TESTS)
    language: str
    entry_point: str = Field(default="", pattern=r"^[A-Za-z_$][\w$]*$|^$")
    """The function that the tests of kind call invoke."""
    prefix: str = ""
    """Source that precedes the program, such as imports."""
    tolerance: float = Field(default=0.0, ge=0, strict=False)
    """Largest difference of two numbers that count as equal, absolute or relative to the expected one."""
    limits: ProgramLimits = ProgramLimits()

    @model_validator(mode="after")
    def _is_whole(self) -> Suite:
        kinds = {test.kind for test in self.tests}
        if len(kinds) > 1:
            raise ValueError("all tests of an item are of one kind")
        if kinds == {"call"} and not self.entry_point:
            raise ValueError("tests with `expected` need an entry_point")
        return self

    @property
    def kind(self) -> str:
        """Return the kind of all tests."""
        return self.tests[0].kind


def read_suite(item: Item, language: str) -> Suite:
    """Return the tests of an item, in `language` if it names none; raise BrokenItem if they are invalid."""
    known = {name: item.data[name] for name in Suite.model_fields if item.data.get(name) is not None}
    try:
        known |= as_tests(known.get("tests"), known.get("entry_point"))
        return Suite.model_validate({"language": language, **known})
    except ValidationError as error:
        raise BrokenItem(f"data.{schema_problems(error, whole='tests', most=1)}") from error


def equal(expected: Any, given: Any, tolerance: float) -> bool:
    """Return whether two JSON values are equal as Python compares them, numbers within the tolerance."""
    if isinstance(expected, bool):  # Python's True == 1 would pass a count for a truth
        return given is expected
    if isinstance(expected, list):
        return (
            isinstance(given, list)
            and len(expected) == len(given)
            and all(equal(*pair, tolerance) for pair in zip(expected, given, strict=True))
        )
    if isinstance(expected, dict):
        return (
            isinstance(given, dict)
            and expected.keys() == given.keys()
            and all(equal(value, given[name], tolerance) for name, value in expected.items())
        )
    if tolerance and isinstance(expected, int | float) and isinstance(given, int | float):
        return math.isclose(expected, given, rel_tol=tolerance, abs_tol=tolerance)
    return expected == given


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.rstrip().split("\n")]
