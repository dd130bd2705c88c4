"""Airflow's scheduler with all that tasks import loaded before it forks: runs in Airflow's environment.

    python -m pipelines.engines.airflow.standalone.scheduler [flags of `airflow scheduler`]

The LocalExecutor forks its workers once, and each worker forks its tasks. What the scheduler has not imported, every
task imports again: seconds of CPU time before the first line of its log. Recipes are still read anew by each task; a
change of this tree's code takes effect when the scheduler starts again.
"""

from __future__ import annotations

import sys


def preload() -> None:
    """Import Airflow's task runner and the modules of our DAGs and tasks; none of them starts a thread."""

    import pipelines.engines.airflow.dag
    import pipelines.engines.airflow.graphs.draw
    import pipelines.engines.airflow.tasks.run_start
    import pipelines.engines.shared.stage_process
    import pipelines.recipe.recipe  # noqa: F401
    from components.contract.registry import component_targets, components

    for name in component_targets():
        components().get(name)


def main() -> None:
    """Load, then run `airflow scheduler` in this process."""
    from airflow.__main__ import main as airflow

    preload()
    sys.argv = ["airflow", "scheduler", *sys.argv[1:]]
    airflow()


if __name__ == "__main__":
    main()
