"""When a stage is tried again: the same rules on every engine.

The recipe's `retries` count what the stage itself does wrong. What the cluster does to it (a node that is lost, taken
back or drained) has a count of its own, since the stage goes on from its last checkpoint. What a retry cannot change
is not tried again.
"""

from __future__ import annotations

from collections.abc import Sequence

from components.contract.job import Retry
from pipelines.engines.driver.causes import DISRUPTIONS, Cause

DISRUPTED_TRIES, SPOT_TRIES = 10, 100
"""How often a stage is tried again after disruptions, and on spot nodes, which are taken back as a rule."""
FINAL = {Cause.REFUSED, Cause.IMAGE, Cause.CONFIGURATION, Cause.NO_NODE, Cause.REJECTED}


def pause_after(causes: Sequence[Cause], retry: Retry, *, spot: bool) -> float | None:
    """Return the seconds until the next try after tries that ended so, the last one last; None if there is none."""
    last = causes[-1]
    if last in FINAL or last is Cause.DONE:
        return None
    disruption = last in DISRUPTIONS
    number = sum((cause in DISRUPTIONS) == disruption for cause in causes)
    allowed = (SPOT_TRIES if spot else DISRUPTED_TRIES) if disruption else retry.retries
    if number > allowed:
        return None
    return retry.pause_before(number)
