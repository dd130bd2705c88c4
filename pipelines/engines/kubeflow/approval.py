"""The task before a stage that needs approval: waits for a decision in the store, which `posttrain approve` writes.

python -m pipelines.engines.kubeflow.approval --store URI --run RUN --stage STAGE
"""

from __future__ import annotations

import sys
import time

from components.contract.errors import InputError, PosttrainError
from components.contract.terminal import print_error, visible
from components.runtime.job.process import FAILED, REFUSED
from pipelines.engines.driver.command import stage_parser
from pipelines.engines.kubeflow.stage_run import StageRun
from pipelines.engines.shared.approvals import REJECTED, Decision, decide

POLL_SECONDS = 5.0


def wait(run: StageRun, *, poll_seconds: float = POLL_SECONDS) -> bool:
    """Return whether the stage may run or reuse a result, once decided; one that is skipped asks nobody."""
    if run.settled():
        print("nobody is asked: the stage is skipped, or has ended", flush=True)
        return True
    question = run.question()
    assert run.job is not None and run.job.approve is not None
    command = f"posttrain approve {run.run_id} {run.stage} --store {run.store.uri}"
    print(f"{visible(run.job.approve.message)}\n{command}", flush=True)
    while (decision := decide(question, run.store, lambda job: None)) is Decision.WAITING:
        time.sleep(poll_seconds)
    if decision is Decision.APPROVED:
        print(f"approved: {run.stage} goes on", flush=True)
        return True
    run.record_death(REJECTED)
    return False


def main() -> int:
    """Wait for one decision; the exit code is 1 for a rejection."""
    arguments = stage_parser("Wait for a person's decision on a stage.").parse_args()
    try:
        if wait(StageRun.find(arguments.store, arguments.run, arguments.stage)):
            return 0
    except PosttrainError as error:
        print_error(error)
        return REFUSED if isinstance(error, InputError) else FAILED
    print(f"posttrain: stage {arguments.stage!r}: {REJECTED}", file=sys.stderr)
    return FAILED


if __name__ == "__main__":
    sys.exit(main())
