"""Verification in the sandbox: what a verifier asks of it, and how many questions are put at once.

A verifier that needs something evaluated returns a Request in the place of a verdict: which function of ours is to be
run inside, on what, and what follows from its reply. The value is computed inside; what is right is decided outside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from components.runtime.sandbox import Limits, Reply, Sandbox, Status, open_sandbox
from components.tasks.scoring import together
from components.tasks.verdict import BrokenItem, Verdict, failed, wrong

MAX_SHARED = 256
"""Questions that are put in one run of the sandbox."""
ENDS = {
    Status.RAISED: "raised",
    Status.TIMEOUT: "ran out of time",
    Status.MEMORY: "ran out of memory",
    Status.OUTPUT: "wrote too much",
    Status.DIED: "ended without an answer",
    Status.BROKE: "had no sandbox to run in",
}


@dataclass(frozen=True)
class Request:
    """One question to the sandbox, and what to do with the answer."""

    function: Callable[[Any], Any]
    """A function of our own at the top of a module; it takes and returns plain JSON, and runs inside."""
    argument: Any
    """Its argument, plain JSON."""
    conclude: Callable[[Reply], Verdict | Request]
    """Makes the verdict of the reply, outside; or asks once more."""
    limits: Limits
    """Of the run. The import of libraries is over before its time begins."""
    preload: tuple[str, ...] = ()
    """Modules that the sandbox imports once, before any run."""
    tools: tuple[str, ...] = ()
    """Commands that have to be there, beside Python."""
    shared: bool = False
    """Whether the argument is mere data to the function, so that it may share a run with others: what evaluates a
    model's text without a grammar of ours before it must have a run of its own."""


def ask(requests: Sequence[Request]) -> list[Reply]:
    """Return the sandbox's reply to every request, in order.

    Those that may share a run do, under the deadline of one: so none is answered later than its own deadline allows.
    Where a shared run does not end well, each of its requests gets a run of its own.
    """
    replies: dict[int, Reply] = {}
    for rows in _shared_runs(requests):
        replies |= dict(zip(rows, _ask_together([requests[row] for row in rows]), strict=False))
    return [replies[row] if row in replies else _run(request) for row, request in enumerate(requests)]


def settle(result: Verdict | Request) -> Verdict:
    """Return the verdict at the end of a chain of requests, one after the other."""
    while isinstance(result, Request):
        (reply,) = ask([result])
        result = failed(describe(reply)) if reply.status is Status.BROKE else result.conclude(reply)
    return result


def blame(reply: Reply, control: Request) -> Request:
    """Ask whose doing it is that a run on a response did not end well: put the item's own reference in its place.

    Where the reference is answered, the response is at fault, and WRONG: a model must not choose to be left out by
    breaking what judges it. Where the reference fares no better, the item is broken.
    """

    def conclude(second: Reply) -> Verdict:
        if second.status is not Status.VALUE:
            raise BrokenItem(f"the reference cannot be judged either: the verifier {describe(second)}")
        return wrong(f"the verifier {describe(reply)} on it")

    return replace(control, conclude=conclude)


def describe(reply: Reply) -> str:
    """Return for people how a run ended that gave no value."""
    return f"{ENDS[reply.status]} ({reply.detail})" if reply.detail else ENDS[reply.status]


def _shared_runs(requests: Sequence[Request]) -> list[list[int]]:
    """Return the rows of requests that are put together: equal function, limits and libraries, up to MAX_SHARED."""
    alike: dict[tuple[Any, ...], list[int]] = {}
    for row, request in enumerate(requests):
        if request.shared:
            key = (request.function, request.limits, request.preload, request.tools)
            alike.setdefault(key, []).append(row)
    runs = [rows[start : start + MAX_SHARED] for rows in alike.values() for start in range(0, len(rows), MAX_SHARED)]
    return [rows for rows in runs if len(rows) > 1]


def _ask_together(requests: Sequence[Request]) -> list[Reply]:
    """Return one reply per request, or none at all where the run that they share did not end well."""
    first = requests[0]
    argument = {"function": _name(first.function), "arguments": [request.argument for request in requests]}
    reply = _run(replace(first, function=together.run, argument=argument))
    if reply.status is not Status.VALUE or not isinstance(reply.value, list) or len(reply.value) != len(requests):
        return []
    return [
        Reply(Status.VALUE, value=result["value"])
        if "value" in result
        else Reply(Status.RAISED, detail=result["raised"])
        for result in reply.value
    ]


def _run(request: Request) -> Reply:
    return _sandbox(request.preload, request.tools).call(_name(request.function), request.argument, request.limits)


@cache
def _sandbox(preload: tuple[str, ...], tools: tuple[str, ...]) -> Sandbox:
    return open_sandbox(preload, tools)


def _name(function: Callable[[Any], Any]) -> str:
    return f"{function.__module__}:{function.__qualname__}"
