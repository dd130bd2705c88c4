"""What a component raised, as the failure that people read: memory that ran out, an operator, a kernel, or itself."""

from __future__ import annotations

from collections.abc import Callable

from components.contract.errors import InputError, OperatorFailed, PosttrainError, StageFailed
from components.contract.job import Job
from components.contract.memory import Moment
from components.runtime.job.closing import one_line
from components.runtime.job.operator_failure import by_stage, failure_of, named_operator, raised_by
from components.runtime.job.shortage import is_out_of_memory
from components.runtime.job.work import work_behind
from components.runtime.system.determinism import NotDeterministic


def explained(error: Exception, job: Job, log: str, what_to_turn: Callable[[str, Moment | None], str]) -> Exception:
    """Return the failure to record for a component's error; the error itself where it says enough.

    `what_to_turn` returns advice on memory from a message, which says which memory ran out, and from when it did.
    """
    if is_out_of_memory(error):
        told = str(error) if isinstance(error, PosttrainError) else f"stage {job.stage!r}: {one_line(error)}"
        work = work_behind(error)
        when = f" {work.words}" if work and not isinstance(error, PosttrainError) else ""
        turn = what_to_turn(f"{type(error).__name__}: {error}", work.moment if work else None)
        return StageFailed(f"{told}{when}; {turn}")
    if isinstance(error, OperatorFailed):
        return by_stage(job.stage, error, log)
    if isinstance(error, NotDeterministic):
        return InputError(f"stage {job.stage!r}: {named_operator(error)}{error}")
    if isinstance(error, PosttrainError) or not (bound := raised_by(error)):
        return error
    return by_stage(job.stage, failure_of(bound, error), log)
