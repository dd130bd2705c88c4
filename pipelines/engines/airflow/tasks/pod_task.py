"""The operator that runs a stage as a pod: deferred while the pod works, and found again after a restart."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
from airflow.providers.cncf.kubernetes.pod_generator import make_safe_label_value
from airflow.providers.cncf.kubernetes.utils.pod_manager import PodPhase
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowRescheduleException,
    AirflowSkipException,
)
from kubernetes.client import models as k8s

from components.contract.job import Job
from components.runtime.job.process import FAILED
from pipelines.engines.airflow.names import RUN_MACRO, STORE
from pipelines.engines.airflow.tasks.links import MlflowRun
from pipelines.engines.airflow.tasks.stage_run import StageRun
from pipelines.engines.shared.attempt import STARTUP_SECONDS, Ended, ended
from pipelines.engines.shared.pod import (
    CONTAINER,
    SCHEDULE_SECONDS,
    PodSettings,
    pod_manifest,
    refusals,
)
from pipelines.plan.plan import stage_job
from pipelines.recipe.pools import Pool, load_pools
from pipelines.recipe.recipe import Recipe
from pipelines.recipe.stage import Stage

LOG_SECONDS = 10
"""How often the log of a running pod is fetched into the task's log."""
SPOKEN = "posttrain: "
"""Prefix of the launcher's line that reports why it failed."""
_UNFINISHED = (PodPhase.PENDING, PodPhase.RUNNING)


class StagePod(KubernetesPodOperator):
    """One stage of a recipe as a pod. Its job's run id may be a template; the pod reads the job from the store."""

    ui_color = "#e8f4ea"
    operator_extra_links = (MlflowRun(),)

    def __init__(self, *, job: Job, node_pool: Pool, settings: PodSettings, **operator: Any) -> None:
        super().__init__(
            pod_template_dict=pod_manifest(job, node_pool, settings),
            base_container_name=CONTAINER,
            deferrable=True,
            durable=True,
            startup_timeout_seconds=STARTUP_SECONDS,
            schedule_timeout_seconds=SCHEDULE_SECONDS,
            get_logs=True,
            logging_interval=LOG_SECONDS,
            on_finish_action="delete_succeeded_pod",
            on_kill_action="delete_pod",
            termination_message_policy="FallbackToLogsOnError",
            log_events_on_failure=True,
            log_pod_spec_on_failure=False,
            do_xcom_push=False,
            **operator,
        )
        self.job, self.node_pool, self.settings = job, node_pool, settings
        self.recipe, self.stage = job.recipe, job.stage  # identifies the stage for the MLflow link

    def execute(self, context: Any) -> dict[str, Any]:
        """Start the pod and wait for it in the triggerer; a cached or refused stage starts none."""
        run = self._run(context)
        if not run.settled() and not run.lost():
            self._follow_pool(run.job)
            if problems := list(refusals(run.job, self.node_pool, self.settings)):
                raise AirflowFailException("\n".join(problems))
            with _failing(run):
                super().execute(context)  # returns only if the pod of an earlier try has ended
        return run.finish()

    def trigger_reentry(self, context: Any, event: dict[str, Any]) -> dict[str, Any]:
        """Continue once the pod has ended."""
        run = self._run(context)
        with _failing(run):
            super().trigger_reentry(context, event)
        return run.finish()

    def _follow_pool(self, job: Job) -> None:
        """Use the pod of the run's own pool if its parameters name another one than the DAG was drawn with."""
        if job.resources.pool != self.job.resources.pool:
            self.node_pool = load_pools()[job.resources.pool]
            self.pod_template_dict = pod_manifest(job, self.node_pool, self.settings)

    def _run(self, context: Any) -> StageRun:
        return StageRun(context, self.job.recipe, self.job.stage, self.log)

    def build_pod_request_obj(self, context: Any = None, *, dry_run: bool = False) -> k8s.V1Pod:
        """Return the pod; labels rendered from templates are cut to valid Kubernetes values."""
        pod = super().build_pod_request_obj(context, dry_run=dry_run)
        pod.metadata.labels = {name: make_safe_label_value(text) for name, text in pod.metadata.labels.items()}
        return pod

    def process_pod_deletion(self, pod: k8s.V1Pod, *, reraise: bool = True) -> bool:
        """Delete a pod that succeeded, or that did not start: it could still start beside its retry.

        A failed pod is kept for inspection.
        """
        if pod is not None and pod.status.phase in _UNFINISHED:
            self.log.info("Deleting pod %s, which is %s", pod.metadata.name, pod.status.phase)
            self.pod_manager.delete_pod(pod)
            return True
        deleted: bool = super().process_pod_deletion(pod, reraise=reraise)
        return deleted

    def cleanup(self, pod: k8s.V1Pod, remote_pod: k8s.V1Pod, xcom_result: Any = None, context: Any = None) -> None:
        """Delete or keep the pod; a failure carries the stage's last message, and a refused job is not retried."""
        try:
            super().cleanup(pod, remote_pod, xcom_result, context)
        except AirflowException:
            end = pod_ended(remote_pod)
            said = self._run(context).record_death(end.error or "") if end.silent else end.error
            raise (AirflowException if end.retryable else AirflowFailException)(said) from None


def stage_pod(stage: Stage, recipe: Recipe, **operator: Any) -> StagePod:
    """Return the task of a stage; its run's id is a template, since its pod is drawn before a run exists."""
    run_id = f"{{{{ {RUN_MACRO}({recipe.name!r}, dag_run) }}}}"
    job = stage_job(stage, recipe, os.environ.get(STORE, ""), run_id)
    return StagePod(job=job, node_pool=recipe.pools[stage.pool], settings=PodSettings.read(), **operator)


@contextmanager
def _failing(run: StageRun) -> Iterator[None]:
    """Let the run go on without a stage whose pod failed for good, where the recipe says so."""
    try:
        yield
    except (AirflowSkipException, AirflowRescheduleException):
        raise
    except AirflowException as error:
        if not run.goes_on(str(error), final=isinstance(error, AirflowFailException)):
            raise


def pod_ended(pod: k8s.V1Pod) -> Ended:
    """Return how a failed pod's attempt ended."""
    name, status = pod.metadata.name, pod.status
    states = [item.state for item in status.container_statuses or [] if item.name == CONTAINER]
    last = states[0].terminated if states else None
    if status.reason:  # of the pod as a whole: DeadlineExceeded, Evicted, NodeLost ...
        return _silent(f"pod {name}: {status.reason}: {status.message or 'no message'}")
    if last is None:
        waiting = states[0].waiting if states else None
        detail = f"{waiting.reason}: {waiting.message}" if waiting else f"it is {status.phase}"
        return _silent(f"pod {name} did not start: {detail}")
    if last.reason == "OOMKilled":
        return _silent(f"pod {name} needed more memory than its pool gives (OOMKilled)")
    lines = [line.strip() for line in (last.message or "").splitlines() if line.strip()]
    said = lines[-1] if lines else ""
    told = said.removeprefix(SPOKEN) if said.startswith(SPOKEN) else None
    code = last.exit_code if last.exit_code < 128 else 128 - last.exit_code  # as a signal, for a container's 137
    return ended(code, finished=False, failure=told, last_line=said)


def _silent(error: str) -> Ended:
    return Ended(FAILED, error, retryable=True, silent=True)
