"""A stage's failure that came out of an operator, in one line: which one, what it did, where, and where its log is."""

from __future__ import annotations

from components.contract.errors import OperatorFailed
from components.contract.operator_files.raised import in_words, place_in
from components.contract.operators import RAISED_BY, Bound


def raised_by(error: BaseException) -> Bound | None:
    """Return the operator that raised an error, or the error behind it; None if no operator did."""
    seen: set[int] = set()
    found: BaseException | None = error
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        if isinstance(bound := getattr(found, RAISED_BY, None), Bound):
            return bound
        found = found.__cause__
    return None


def failure_of(bound: Bound, error: Exception) -> OperatorFailed:
    """Return the failure of an operator that raised."""
    if bound.file:
        return bound.file.raised(error)
    place = place_in(bound.function, error)
    at = f", at {place}" if place else ""
    return OperatorFailed(f"{bound.slot} operator {bound.name!r} raised {in_words(error)}{at}", raised=error)


def by_stage(stage: str, failure: OperatorFailed, log: str) -> OperatorFailed:
    """Return the failure with its stage, and where the traceback is."""
    where = f"its log has the traceback: {log}" if log else "the stage's log has the traceback"
    return OperatorFailed(f"stage {stage!r}: {failure}; {where}", edit=failure.edit, raised=failure.raised or failure)


def named_operator(error: BaseException) -> str:
    """Return "<slot> operator <name>: " for an error that came out of an operator, else ""."""
    bound = raised_by(error)
    return f"{bound.slot} operator {bound.name!r}: " if bound else ""
