"""Programs: how many of the item's tests the program in a response passes."""

from __future__ import annotations

from components.contract.artifacts import hash_parts
from components.contract.params import Params
from components.tasks.item import Item
from components.tasks.programs.extract import extract_program
from components.tasks.programs.grading import Grade, Grading
from components.tasks.programs.languages import find_language
from components.tasks.programs.suite import Suite, read_suite
from components.tasks.sandboxed import Request, settle
from components.tasks.verdict import Outcome
from components.tasks.verify import BrokenItem, Verdict, wrong

MAX_CHARS = 200_000
MAX_REMEMBERED = 100_000

_references: dict[str, str] = {}
"""Results of the reference checks in this process, by content: what is wrong, or ""."""


class CodeTestsConfig(Params):
    """Which language."""

    language: str = "python"
    """Language of items whose data names none: python, c, javascript or sql."""


def code_tests(item: Item, response: str, *, config: CodeTestsConfig) -> Verdict | Request:
    """Judge a program by tests, in the sandbox; its score is the share of them that it passes.

    `data["tests"]` lists calls ({args, kwargs, expected} of `data["entry_point"]`, or `assert f(2) == 4`), runs
    ({stdin, stdout}) or queries ({setup, rows, ordered}), or is such a list as JSON text. `data` may also hold
    `language`, `prefix`, `tolerance` and `limits`. The program is that of `extract_program`; a function may be a method
    of `class Solution`, and may use what judges import (`List`, `Counter`, `math`). RIGHT: all passed.
    WRONG: one gave something else, raised, or ran out of its limits. A reference program that does not pass all its
    own tests breaks the item. What is expected is compared outside and never known to the program.
    """
    suite = read_suite(item, config.language)
    _check_reference(item, suite)
    source = _program(response, suite)
    if len(source) > MAX_CHARS:
        return wrong(f"longer than {MAX_CHARS} characters")
    if not source.strip():
        return wrong("no program")
    return Grading(source, suite, _verdict).go_on()


def _verdict(grade: Grade) -> Verdict:
    detail = f"{grade.passed} of {grade.total} tests passed"
    if grade.passed == grade.total:
        return Verdict(Outcome.RIGHT, "", 1.0)
    # A suite passes only as a whole: rounding must not hide the last failure.
    return wrong(f"{detail}; {grade.note}", graded=grade.share)


def _program(text: str, suite: Suite) -> str:
    tags = find_language(suite).tags
    reads_input = suite.kind == "run" and any(test.stdin for test in suite.tests)
    return extract_program(text, tags, suite.entry_point if suite.kind == "call" else "", reads_input=reads_input)


def _check_reference(item: Item, suite: Suite) -> None:
    """Raise BrokenItem for a reference that does not pass the item's tests; checked once for each content."""
    if not item.answer.strip():
        return
    key = hash_parts(suite.model_dump_json(), item.answer)
    if key not in _references:
        found: list[Grade] = []

        def conclude(grade: Grade) -> Verdict:
            found.append(grade)
            return _verdict(grade)

        verdict = settle(Grading(_program(item.answer, suite), suite, conclude).go_on())
        if verdict.failed:
            raise RuntimeError(verdict.detail)
        problem = "" if verdict.right else verdict.detail
        if found[0].timed_out:  # on a busy machine: it may pass the next time
            raise BrokenItem(f"the reference fails its own tests: {problem}")
        if len(_references) >= MAX_REMEMBERED:
            _references.clear()
        _references[key] = problem
    if _references[key]:
        raise BrokenItem(f"the reference fails its own tests: {_references[key]}")
