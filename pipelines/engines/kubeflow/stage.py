"""A stage's task: runs the launcher with the job that the store holds, and points to what it made.

python -m pipelines.engines.kubeflow.stage --store URI --run RUN --stage STAGE --executor-input JSON --pointer PORT FILE
"""

from __future__ import annotations

import subprocess
import sys
import time

from components.contract.errors import InputError, PosttrainError
from components.contract.terminal import print_error
from components.runtime.job.process import FAILED, REFUSED
from components.runtime.ledger.records import stage_key
from pipelines.engines.kubeflow.executor import ExecutorInput
from pipelines.engines.kubeflow.jobsets.refusals import Refusals
from pipelines.engines.kubeflow.stage_run import StageRun, add_outputs, stage_parser
from pipelines.engines.kubeflow.tries import goes_on, used_up
from pipelines.engines.shared.attempt import ended
from pipelines.engines.shared.launcher import launcher_command, tied_to_this_process


def launch(run: StageRun) -> int:
    """Run the launcher in its own process, and record its death if it could not do so itself."""
    flags = ["--alone", *tied_to_this_process()]
    command = launcher_command(sys.executable, run.store.uri, run.run_id, run.stage, *flags)
    started = time.time()
    code = subprocess.call(command)
    done = run.store.get(stage_key(run.run_id, run.stage)) is not None
    failure = run.failure()
    said = failure["error"] if failure and failure["time"] >= started else None
    end = ended(code, finished=done, failure=said)
    if end.silent and code != REFUSED:  # one that refuses its input has said so on stderr
        run.record_death(end.error or "its process died")
        print_error(f"stage {run.stage!r}: {end.error}")
    return end.code if end.code >= 0 else 128 - end.code


def main() -> int:
    """Run one stage; the exit code is the launcher's."""
    parser = stage_parser("Run a stage of a run.")
    add_outputs(parser)
    arguments = parser.parse_args()
    try:
        told = ExecutorInput.parse(arguments.executor_input)
        run = StageRun.find(arguments.store, arguments.run, arguments.stage)
        if run.job is not None and not used_up(run):
            refusals = Refusals(run)
            if message := refusals.standing():
                print_error(message)
                return REFUSED
            code = launch(run)
            if code and not goes_on(run, code):
                refusals.note(code)
                return code
        run.point(told, arguments.pointer)
    except PosttrainError as error:
        print_error(error)
        return REFUSED if isinstance(error, InputError) else FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main())
