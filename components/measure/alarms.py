"""Alarms of stages that verify responses."""

from __future__ import annotations

from components.contract.alarms import Alarm, Quotient

VERIFIER_RAISES = "verifier_raises"
RAISED, JUDGED = "num_raised", "num_judged"
"""Columns of a row: texts that a user's verifier raised on, and all that were judged."""


def verifier_raises(*, rows: int) -> Alarm:
    """Return the alarm on a user's verifier that raises on many responses; `rows` in a row must be beyond its bound."""
    return Alarm(
        name=VERIFIER_RAISES,
        rule=Quotient(part=RAISED, whole=JUDGED),
        bound=0.2,
        rows=rows,
        says="the verifier raised on {value} of the responses, which therefore count as wrong",
        helps="mend it in that line, so that it returns False for a response that it cannot read; posttrain try runs "
        "it on rows by itself",
        reason="a strange response may break a parser now and then; on a fifth of all it is the parser's fault",
    )
