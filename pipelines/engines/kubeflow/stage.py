"""The task of a stage that runs in its own container: runs the launcher, and points to what the stage made.

python -m pipelines.engines.kubeflow.stage --store URI --run RUN --stage STAGE --executor-input JSON --pointer PORT FILE
"""

from __future__ import annotations

import subprocess
import sys
import time
from functools import partial

from components.contract.errors import InputError, PosttrainError
from components.contract.terminal import print_error
from components.runtime.job.process import FAILED, REFUSED
from pipelines.engines.driver.command import stage_parser
from pipelines.engines.driver.here import drive_here
from pipelines.engines.kubeflow.executor import ExecutorInput
from pipelines.engines.kubeflow.retried import retried
from pipelines.engines.kubeflow.stage_run import StageRun, add_outputs
from pipelines.engines.shared.attempt import ended
from pipelines.engines.shared.launcher import launcher_command, tied_to_this_process


def launch(run: StageRun) -> int:
    """Run the launcher in its own process, and record its death if it could not do so itself."""
    flags = ["--alone", *tied_to_this_process()]
    command = launcher_command(sys.executable, run.store.uri, run.run_id, run.stage, *flags)
    started = time.time()
    code = subprocess.call(command)
    failure = run.failure()
    said = failure["error"] if failure and failure["time"] >= started else None
    end = ended(code, finished=run.done(), failure=said)
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
        if run.job is not None and (code := drive_here(run, partial(launch, run), retried=retried())):
            return code
        run.point(told, arguments.pointer)
    except PosttrainError as error:
        print_error(error)
        return REFUSED if isinstance(error, InputError) else FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main())
