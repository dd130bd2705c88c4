"""The task of a stage that runs on the cluster: drives it there, and points to what it made.

python -m pipelines.engines.kubeflow.remote --store URI --run RUN --stage STAGE --pool JSON --cluster JSON ...

It runs on a small node, as the account of Kubeflow's tasks; the stage runs in the project's own namespace.
"""

from __future__ import annotations

import sys

from components.contract.errors import PosttrainError
from components.contract.terminal import print_error
from pipelines.engines.driver.api import Cluster
from pipelines.engines.driver.command import add_cluster, drive, exit_code, stage_parser
from pipelines.engines.driver.patience import Clock
from pipelines.engines.kubeflow.executor import ExecutorInput
from pipelines.engines.kubeflow.retried import retried
from pipelines.engines.kubeflow.stage_run import StageRun, add_outputs


def main(cluster: Cluster | None = None, clock: Clock | None = None) -> int:
    """Run one stage on the cluster; the exit code is that of a stage."""
    parser = stage_parser("Run a stage of a run on the cluster.")
    add_cluster(parser)
    add_outputs(parser)
    arguments = parser.parse_args()
    try:
        told = ExecutorInput.parse(arguments.executor_input)
        run = StageRun.find(arguments.store, arguments.run, arguments.stage)
        if code := drive(run, arguments, retried=retried(), cluster=cluster, clock=clock):
            return code
        run.point(told, arguments.pointer)
    except PosttrainError as error:
        print_error(error)
        return exit_code(error)
    return 0


if __name__ == "__main__":
    sys.exit(main())
