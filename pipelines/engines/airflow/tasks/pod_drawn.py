"""A stage as a pod as the DAG processor needs it: its place in the graph, and nothing of Kubernetes.

The libraries behind the operator for pods take seconds to import, and a busy processor gives a file 30 s. A task's own
process parses its DAG again, with the operator that does the work.
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import BaseOperator

from pipelines.engines.airflow.tasks.links import MlflowRun


class StagePod(BaseOperator):
    """Stands for the operator of the same name in pod_task; run in this process, it hands over to that one."""

    ui_color = "#e8f4ea"
    operator_extra_links = (MlflowRun(),)

    def __init__(self, *, recipe: str, stage: str, path: str, **operator: Any) -> None:
        super().__init__(**operator)
        self.recipe, self.stage = recipe, stage  # identifies the stage for the MLflow link
        self._path, self._operator = path, _own(operator)

    def execute(self, context: Any) -> Any:
        """Do the work, where the process that parsed all DAGs also runs them, as `airflow dags test` does."""
        return self._working().execute(context)

    def trigger_reentry(self, context: Any, event: dict[str, Any]) -> Any:
        """Continue once the pod has ended."""
        return self._working().trigger_reentry(context, event)

    def _working(self) -> Any:
        from pipelines.engines.airflow.tasks.pod_task import stage_pod
        from pipelines.recipe.recipe import load_recipe

        recipe = load_recipe(self._path, whole=True)
        stage = next(stage for stage in recipe.stages if stage.name == self.stage)
        return stage_pod(stage, recipe, **self._operator)


def _own(operator: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments that an operator outside of a graph takes."""
    return {name: value for name, value in operator.items() if name not in ("dag", "task_group")}
