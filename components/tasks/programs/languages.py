"""The languages of programs: how each is run in the sandbox, and the Debian package that it needs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from components.runtime.sandbox import Limits, Reply, Status
from components.runtime.sandbox.values import NotPlain, decode
from components.tasks.programs.suite import ProgramTest, Suite
from components.tasks.scoring import program, query
from components.tasks.verdict import BrokenItem

MIB = 1 << 20
PRINTED = 256 << 10
"""Bytes that a program may print in one test."""
BUILD_SECONDS = 5.0
JAVASCRIPT_ADDRESSES = 64 << 30
CALLS = """
;(() => {
  const calls = JSON.parse(require("fs").readFileSync(0, "utf8"));
  const results = calls.map(call => {
    try { const value = ENTRY(...call.args); return {value: value === undefined ? null : value}; }
    catch (error) { return {raised: String(error).slice(0, 200)}; }
  });
  process.stdout.write("\\n" + JSON.stringify(results));
})();
"""
"""Appended to a JavaScript program: prints what its entry point returns, on the last line."""

Results = list[dict[str, Any]]


@dataclass(frozen=True)
class Run:
    """One run of the sandbox on some tests: a function, its argument, and how to read each test's result."""

    function: Callable[[Any], Any]
    argument: dict[str, Any]
    limits: Limits
    tools: tuple[str, ...] = ()
    read: Callable[[Reply], Any] = field(default=lambda reply: reply.value)
    """Returns {"value": ...} or {"raised": why} for each test."""


@dataclass(frozen=True)
class Language:
    """How programs in a language are recognised and run."""

    tags: tuple[str, ...]
    """Marks of fenced blocks."""
    kinds: tuple[str, ...]
    """Supported kinds of tests: call, run, query."""
    make: Callable[[str, Suite, Sequence[ProgramTest]], Run]
    """Makes the run of a program on tests."""
    together: tuple[str, ...] = ()
    """Kinds whose tests share a run."""
    tool: str = ""
    package: str = ""
    """Debian package of `tool`, the command that it needs."""


def find_language(suite: Suite) -> Language:
    """Return a suite's language; raise BrokenItem if it is unknown, not installed or has no such kind of test."""
    language = LANGUAGES.get(suite.language)
    if language is None:
        raise BrokenItem(f"language {suite.language!r} is none of {', '.join(LANGUAGES)}")
    if suite.kind not in language.kinds:
        raise BrokenItem(f"language {suite.language!r} has no tests of kind {suite.kind!r}")
    if language.tool and shutil.which(language.tool) is None:
        raise BrokenItem(f"language {suite.language!r} needs {language.tool}: install Debian's {language.package}")
    return language


def _python(source: str, suite: Suite, tests: Sequence[ProgramTest]) -> Run:
    if suite.kind == "call":
        argument = {"source": source, "entry": suite.entry_point, "calls": _calls(tests)}
        return Run(program.call, argument, _limits(suite))
    argument = {"source": source, "stdin": tests[0].stdin or ""}
    return Run(program.run, argument, _limits(suite), read=lambda reply: [{"value": reply.stdout}])


def _c(source: str, suite: Suite, tests: Sequence[ProgramTest]) -> Run:
    build = ["gcc", "-O2", "-std=gnu17", "-w", "-o", "program", "program.c", "-lm"]
    return _command({"program.c": source}, build, ["./program"], suite, tests)


def _verilog(source: str, suite: Suite, tests: Sequence[ProgramTest]) -> Run:
    build = ["iverilog", "-g2012", "-o", "program.vvp", "program.v"]
    return _command({"program.v": source}, build, ["vvp", "-n", "program.vvp"], suite, tests)


def _javascript(source: str, suite: Suite, tests: Sequence[ProgramTest]) -> Run:
    if suite.kind == "run":
        run = _command({"program.js": source}, [], ["node", "program.js"], suite, tests)
        return replace(run, limits=replace(run.limits, address_bytes=JAVASCRIPT_ADDRESSES))
    files = {"program.js": source + CALLS.replace("ENTRY", suite.entry_point)}
    (first, *_), calls = tests, calls_as_text(tests)
    run = _command(files, [], ["node", "program.js"], suite, [first.model_copy(update={"stdin": calls})])
    limits = replace(run.limits, address_bytes=JAVASCRIPT_ADDRESSES)
    return replace(run, limits=limits, read=lambda reply: _printed(reply, len(tests)))


def _sql(source: str, suite: Suite, tests: Sequence[ProgramTest]) -> Run:
    return Run(query.select, {"source": source, "setups": [test.setup for test in tests]}, _limits(suite))


def _command(
    files: Mapping[str, str], build: list[str], run: list[str], suite: Suite, tests: Sequence[ProgramTest]
) -> Run:
    inputs = [test.stdin or "" for test in tests]
    argument = {"files": dict(files), "build": build, "run": run, "inputs": inputs, "most": PRINTED}
    limits = _limits(suite)
    limits = replace(limits, seconds=limits.seconds + (BUILD_SECONDS if build else 0), processes=64)
    return Run(program.command, argument, limits, tools=((build or run)[0],))


def _limits(suite: Suite) -> Limits:
    limits = suite.limits
    output = max(PRINTED, 4 * PRINTED if suite.kind != "run" else 0)
    return Limits(seconds=limits.seconds, memory_bytes=limits.memory_mb * MIB, output_bytes=output)


def _calls(tests: Sequence[ProgramTest]) -> list[dict[str, Any]]:
    return [{"args": test.args, "kwargs": test.kwargs} for test in tests]


def calls_as_text(tests: Sequence[ProgramTest]) -> str:
    """Return the calls as the JSON text that a program of another language reads."""
    return json.dumps(_calls(tests))


def _printed(reply: Reply, count: int) -> Results:
    """Return the results that a program printed on its last line; an unreadable one is a failed test."""
    (printed,) = reply.value
    if "raised" in printed:
        return [printed] * count
    try:
        return decode(printed["value"].rpartition("\n")[2].encode())
    except NotPlain:
        return []


LANGUAGES: Mapping[str, Language] = {
    "python": Language(("python", "py", "python3"), ("call", "run"), _python, together=("call",)),
    "c": Language(("c",), ("run",), _c, together=("run",), tool="gcc", package="gcc and libc6-dev"),
    "javascript": Language(
        ("javascript", "js", "node"),
        ("call", "run"),
        _javascript,
        together=("call", "run"),
        tool="node",
        package="nodejs",
    ),
    "verilog": Language(
        ("verilog", "systemverilog", "sv", "v"),
        ("run",),
        _verilog,
        together=("run",),
        tool="iverilog",
        package="iverilog",
    ),
    "sql": Language(("sql", "sqlite"), ("query",), _sql, together=("query",)),
}


def results_of(run: Run, reply: Reply, count: int) -> Results | None:
    """Return a run's result for each of `count` tests; None if it gave nothing readable."""
    if reply.status is not Status.VALUE:
        return None
    found = run.read(reply)
    good = isinstance(found, list) and len(found) == count and all(isinstance(one, dict) for one in found)
    return found if good else None
