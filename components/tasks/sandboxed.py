"""Verification in the sandbox: a verifier's requests, and which of them share a run.

A verifier that needs something evaluated returns a Request instead of a verdict: one of our functions to run inside,
its argument, and what follows from the reply. The value is computed inside; correctness is decided outside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from components.runtime.sandbox import Limits, Reply, Sandbox, Status, open_sandbox
from components.tasks.scoring import together
from components.tasks.verdict import BrokenItem, ReferenceTimeout, Verdict, failed, wrong

MAX_SHARED = 256
"""Most requests in one run of the sandbox."""
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
    """One request to the sandbox, and what to do with the reply."""

    function: Callable[[Any], Any]
    """One of our functions, at the top of a module; it takes and returns plain JSON, and runs inside."""
    argument: Any
    """Its argument, plain JSON."""
    conclude: Callable[[Reply], Verdict | Request]
    """Turns the reply into a verdict, outside, or returns a further request."""
    limits: Limits
    """Limits of the run. Its time starts after libraries are imported."""
    preload: tuple[str, ...] = ()
    """Modules that the sandbox imports once, before any run."""
    tools: tuple[str, ...] = ()
    """Commands that it needs beside Python."""
    shared: bool = False
    """Whether the function treats the argument as mere data, so that it may share a run with others: a function that
    evaluates a model's text not first checked by our grammar must have its own run."""


def ask(requests: Sequence[Request]) -> list[Reply]:
    """Return the sandbox's reply to every request, in order.

    Requests that may share a run do, under the deadline of one, so that none is answered after its own deadline.
    If a shared run fails, each of its requests gets its own run.
    """
    replies: dict[int, Reply] = {}
    for rows in _shared_runs(requests):
        replies |= dict(zip(rows, _ask_together([requests[row] for row in rows]), strict=False))
    return [replies[row] if row in replies else _run(request) for row, request in enumerate(requests)]


def settle(result: Verdict | Request) -> Verdict:
    """Return the verdict at the end of a chain of requests, run one after the other."""
    while isinstance(result, Request):
        (reply,) = ask([result])
        result = failed(describe(reply)) if reply.status is Status.BROKE else result.conclude(reply)
    return result


def blame(reply: Reply, control: Request) -> Request:
    """Find out why a run on a response failed: return the request with the item's own reference in its place.

    If the reference gets an answer, the response is at fault and WRONG: a model must not drop out of the count by
    breaking its judge. If the reference fails too, the item is broken.
    """

    def conclude(second: Reply) -> Verdict:
        if second.status is not Status.VALUE:
            error = ReferenceTimeout if second.status is Status.TIMEOUT else BrokenItem
            raise error(f"the reference cannot be judged either: the verifier {describe(second)}")
        return replace(wrong(f"the verifier {describe(reply)} on it"), timed_out=reply.status is Status.TIMEOUT)

    return replace(control, conclude=conclude)


def describe(reply: Reply) -> str:
    """Describe how a run without a value ended."""
    return f"{ENDS[reply.status]} ({reply.detail})" if reply.detail else ENDS[reply.status]


def _shared_runs(requests: Sequence[Request]) -> list[list[int]]:
    """Return the indices of requests that share a run: equal function, limits and libraries, up to MAX_SHARED."""
    alike: dict[tuple[Any, ...], list[int]] = {}
    for row, request in enumerate(requests):
        if request.shared:
            key = (request.function, request.limits, request.preload, request.tools)
            alike.setdefault(key, []).append(row)
    runs = [rows[start : start + MAX_SHARED] for rows in alike.values() for start in range(0, len(rows), MAX_SHARED)]
    return [rows for rows in runs if len(rows) > 1]


def _ask_together(requests: Sequence[Request]) -> list[Reply]:
    """Return one reply per request, or an empty list if their shared run failed."""
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
