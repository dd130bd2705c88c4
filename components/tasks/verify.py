"""Verification: whether a response answers its item right. Verifiers are called only here.

There are three outcomes. RIGHT and WRONG are judgements about the response: one that cannot be parsed is WRONG, and so
is one that breaks a verifier which can judge the item's reference. FAILED means that there is no judgement,
because the item is broken, its verifier is unknown or crashed, or the sandbox broke; failures are counted and shown,
and never scored as wrong.

A verifier is an operator (item, response, *, config) -> Verdict. One that evaluates a model's text returns a Request to
the sandbox instead (components/tasks/sandboxed.py) and turns the reply into a verdict.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache

from components.contract.errors import OperatorFailed
from components.contract.operator_files.loading import place_of
from components.contract.operator_files.names import plain_name
from components.contract.operators import Bound, OperatorSpec
from components.runtime.sandbox import NoSandbox, Reply, Status
from components.tasks.item import Item
from components.tasks.sandboxed import Request, ask, describe
from components.tasks.slots import VERIFIER
from components.tasks.verdict import RIGHT, BrokenItem, Outcome, Verdict, failed, wrong

__all__ = ["RIGHT", "BrokenItem", "Outcome", "Verdict", "count_outcomes", "verify", "verify_all", "wrong"]

SETTINGS = "settings"
BLOCK = 256
"""Pairs that are judged at once, so that memory does not grow with the length of the stream."""


def verify(item: Item, response: str) -> Verdict:
    """Judge `response` by the item's verifier; see `verify_all`."""
    return verify_all([(item, response)])[0]


def verify_all(pairs: Iterable[tuple[Item, str]]) -> list[Verdict]:
    """Judge many (item, response) pairs, in order. Requests to the sandbox are batched, which is faster.

    Any error inside a verifier becomes the verdict FAILED with the reason as its detail. Raises NoSandbox, before the
    sandbox judges anything, if one is needed and this machine has none, and OperatorFailed for a verifier that returns
    no verdict, or that cannot judge an item's own answer.
    """
    verdicts: list[Verdict] = []
    block: list[tuple[Item, str]] = []
    for pair in pairs:
        block.append(pair)
        if len(block) == BLOCK:
            verdicts += _verify_block(block)
            block = []
    return verdicts + _verify_block(block)


def count_outcomes(verdicts: Iterable[Verdict]) -> dict[Outcome, int]:
    """Return how many verdicts have each outcome; all three are always present."""
    counts = dict.fromkeys(Outcome, 0)
    for verdict in verdicts:
        counts[verdict.outcome] += 1
    return counts


def _verify_block(pairs: list[tuple[Item, str]]) -> list[Verdict]:
    results = [_guarded(item, lambda item=item, text=text: _begin(item, text)) for item, text in pairs]
    verdicts = {row: result for row, result in enumerate(results) if isinstance(result, Verdict)}
    asked = {row: result for row, result in enumerate(results) if isinstance(result, Request)}
    while asked:
        replies = ask(list(asked.values()))
        following: dict[int, Request] = {}
        for (row, request), reply in zip(asked.items(), replies, strict=True):
            result = _guarded(pairs[row][0], lambda request=request, reply=reply: _conclude(request, reply))
            if isinstance(result, Verdict):
                verdicts[row] = result
            else:
                following[row] = result
        asked = following
    return [verdicts[row] for row in range(len(pairs))]


def _begin(item: Item, response: str) -> Verdict | Request:
    settings = item.data.get(SETTINGS)
    return _bound(item.verifier, json.dumps(settings, sort_keys=True) if settings else "{}")(item, response)


def _conclude(request: Request, reply: Reply) -> Verdict | Request:
    return failed(describe(reply)) if reply.status is Status.BROKE else request.conclude(reply)


def _guarded(item: Item, judge: Callable[[], Verdict | Request]) -> Verdict | Request:
    """Return what `judge` returns, or the verdict FAILED if it raises."""
    try:
        result = judge()
        if isinstance(result, Verdict | Request):
            return result
        raise OperatorFailed(f"verifier {plain_name(item.verifier)} returned {result!r:.60}, expected a Verdict")
    except (NoSandbox, OperatorFailed):
        raise
    except BrokenItem as error:
        return replace(failed(f"broken item: {error}"), timed_out=error.timed_out)
    except Exception as error:  # third-party scorers may raise anything: this boundary turns it into an outcome
        place = place_of(error)
        reason = f"{type(error).__name__}: {error}{f' ({place})' if place else ''}"
        verdict = failed(f"verifier {plain_name(item.verifier)!r}: {reason}")
        return replace(verdict, timed_out=isinstance(error, TimeoutError))


@cache
def _bound(name: str, settings: str) -> Bound:
    return OperatorSpec.model_validate({"name": name, **json.loads(settings)}).resolve(VERIFIER)
