"""The operator of a stage that runs on the cluster: deferred while its pods work, and found again after a restart.

The task and its trigger are the two halves of the driver that Kubeflow's tasks run in one process: the task settles,
creates and decides, in seconds; the trigger follows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from pipelines.engines.airflow.tasks.links import MlflowRun

if TYPE_CHECKING:
    from pipelines.engines.airflow.tasks.stage_run import StageRun
    from pipelines.engines.driver.driver import Driver
    from pipelines.engines.driver.observer import Seen

POD_NAME, POD_NAMESPACE = "pod_name", "pod_namespace"
"""Keys under which the task stores the pods of its last try, as other tasks with pods do."""


class StagePod(BaseOperator):
    """One stage of a recipe as a Job on its pool, or as a JobSet or a TrainJob on several nodes."""

    ui_color = "#e8f4ea"
    operator_extra_links = (MlflowRun(),)

    def __init__(self, *, recipe: str, stage: str, **operator: Any) -> None:
        super().__init__(**operator)
        self.recipe, self.stage = recipe, stage

    def execute(self, context: Any) -> dict[str, Any]:
        """Settle the stage, or start its work and wait for it in the triggerer; a cached or refused one starts none."""
        return self._go_on(context, None)

    def resume(self, context: Any, event: dict[str, Any]) -> dict[str, Any]:
        """Decide what comes next, now that the trigger has seen something."""
        from pipelines.engines.driver.observer import Seen

        if "error" in event:
            raise AirflowException(event["error"])
        return self._go_on(context, Seen.from_json(event))

    def _go_on(self, context: Any, seen: Seen | None) -> dict[str, Any]:
        """Do all that can be done now; defers the task while something is waited for."""
        from components.contract.errors import InputError, PosttrainError
        from pipelines.engines.airflow.tasks.stage_run import StageRun
        from pipelines.engines.driver.api import ClusterUnavailable

        run = StageRun(context, self.recipe, self.stage, self.log)
        try:
            driver = self._driver(run)
            code = driver.enter(retried=run.retried) if seen is None else None
            code = driver.act(seen) if code is None else code
        except ClusterUnavailable as error:
            self.log.warning("%s", error)
            code = None  # the trigger asks until it answers
        except InputError as error:
            raise AirflowFailException(str(error)) from None
        except PosttrainError as error:  # such as a store that does not answer: nothing is lost by another try
            raise AirflowException(str(error)) from None
        if seen is not None and seen.pods:
            context["ti"].xcom_push(POD_NAME, seen.pods[0] if len(seen.pods) == 1 else list(seen.pods))
            context["ti"].xcom_push(POD_NAMESPACE, self._namespace())
        if code is None:
            self.defer(trigger=self._trigger(run), method_name="resume")
        if code:
            raise AirflowFailException(f"stage {self.stage!r}: {driver.last_error}")
        return run.finish()

    def _driver(self, run: StageRun) -> Driver:
        from pipelines.engines.driver.api import Cluster
        from pipelines.engines.driver.driver import Driver
        from pipelines.engines.driver.stage import DrivenStage
        from pipelines.engines.shared.pod import PodSettings
        from pipelines.recipe.pools import load_pools

        stage = DrivenStage(run.store, run.run_id, self.stage, run.job)
        pool = load_pools()[run.job.resources.pool]  # of the run: its parameters may name another one than the DAG
        return Driver(stage, pool, PodSettings.read(), Cluster.inside(), holder=run.holder)

    def _trigger(self, run: StageRun) -> Any:
        from pipelines.engines.airflow.tasks.stage_trigger import StageTrigger

        return StageTrigger(run.store.uri, run.run_id, self.stage, self._namespace(), run.holder)

    def _namespace(self) -> str:
        from pipelines.engines.shared.pod import PodSettings

        return PodSettings.read().namespace
