"""Where a task's pod runs and with what: its pool's nodes, GPUs and memory, and variables from the cluster."""

from __future__ import annotations

import math
from collections.abc import Mapping

from kfp import kubernetes
from kfp.dsl import PipelineTask

from components.contract.job import Retry
from pipelines.engines.driver.names import POD
from pipelines.engines.kubeflow.compiler.lifetime import LONGEST_SECONDS
from pipelines.engines.kubeflow.compiler.pool_fields import merge_fields
from pipelines.engines.kubeflow.compiler.settings import Settings
from pipelines.engines.kubeflow.names import COMPONENT, LABEL
from pipelines.engines.shared.attempt import STARTUP_SECONDS
from pipelines.engines.shared.container import USER, gib
from pipelines.recipe.recipe import Recipe
from pipelines.recipe.stage import Stage

GPU = "nvidia.com/gpu"
WAITING = {"cpu": "25m", "memory": "96Mi"}
"""Requests of tasks that wait for hours: drivers, approvals and parts. Measured: 71 MiB with the store's client."""
WORKING = {"cpu": "100m", "memory": "256Mi"}
"""Requests of the tasks that plan a run and write its report. Measured: 170 MiB with MLflow's client."""
LIMITS = {"cpu": "1", "memory": "2Gi"}
"""Of both kinds."""
ASKS_KUBEFLOW = "access-ml-pipeline"
"""Label by which Kubeflow with several users gives a pod its token (its PodDefault of that name)."""
OWN_RETRY = Retry(retries=3, backoff_seconds=5)
"""For what befalls a task's own pod; asking again does no harm. A stage is tried again by its task."""


def place_stage(task: PipelineTask, stage: Stage, recipe: Recipe, settings: Settings) -> None:
    """Put a stage onto a node of its pool."""
    pool = recipe.pools[stage.pool]
    amounts = {"cpu": str(pool.cpus), "memory": gib(pool.memory_gib)}
    _resources(task, amounts, amounts)
    if pool.gpus:
        task.set_accelerator_type(GPU).set_accelerator_limit(pool.gpus)
    for name, value in pool.node_selector.items():
        kubernetes.add_node_selector(task, name, value)
    for toleration in pool.tolerations:
        kubernetes.add_toleration(task, **toleration.model_dump(exclude_none=True))
    if pool.shared_memory_gib:
        size = gib(pool.shared_memory_gib)
        kubernetes.empty_dir_mount(task, "shared-memory", "/dev/shm", medium="Memory", size_limit=size)
    if stage.timeout_seconds:  # each try enforces it by itself; this is for a pod that cannot
        kubernetes.set_timeout(task, pod_seconds(stage.timeout_seconds, stage.retry))
    merge_fields(task, pool)
    _every(task, recipe, settings, role="stage")
    _stage_labels(task, stage)
    retry(task, OWN_RETRY)


def pod_seconds(timeout: float, wanted: Retry) -> int:
    """Return how long a pod may take in which a stage is tried as often as its recipe says."""
    pauses = map(wanted.pause_before, range(1, wanted.retries + 1))
    return math.ceil((wanted.retries + 1) * timeout + sum(pauses)) + STARTUP_SECONDS


def place_driver(task: PipelineTask, stage: Stage, recipe: Recipe, settings: Settings) -> None:
    """Put the driver of a stage that runs elsewhere onto any node."""
    _resources(task, WAITING, LIMITS)
    _every(task, recipe, settings, role="engine")
    _stage_labels(task, stage)
    retry(task, OWN_RETRY)


def place_own(task: PipelineTask, recipe: Recipe, settings: Settings, requests: Mapping[str, str]) -> None:
    """Put a task that is not a stage onto any node."""
    _resources(task, requests, LIMITS)
    _every(task, recipe, settings, role="stage")  # it may reach what a stage may: the store and MLflow


def place_part(task: PipelineTask, recipe: Recipe, settings: Settings) -> None:
    """Put the task of a part onto any node, with a token for Kubeflow Pipelines where pods are given one."""
    _resources(task, WAITING, LIMITS)
    _every(task, recipe, settings, role="engine")
    kubernetes.add_pod_label(task, ASKS_KUBEFLOW, "true")


def retry(task: PipelineTask, wanted: Retry) -> None:
    """Set a task's retries, with pauses that double; those of stages are the business of their tasks themselves.

    What Kubeflow calls the longest backoff is, in Argo, the time from the first attempt's start after which nothing is
    tried or even goes on. A single pause has no bound there.
    """
    task.set_retry(wanted.retries, f"{math.ceil(wanted.backoff_seconds)}s", 2.0, f"{LONGEST_SECONDS}s")


def _resources(task: PipelineTask, requests: Mapping[str, str], limits: Mapping[str, str]) -> None:
    task.set_cpu_request(requests["cpu"]).set_cpu_limit(limits["cpu"])
    task.set_memory_request(requests["memory"]).set_memory_limit(limits["memory"])


def _every(task: PipelineTask, recipe: Recipe, settings: Settings, *, role: str) -> None:
    task.set_caching_options(False)
    kubernetes.empty_dir_mount(task, "tmp", "/tmp")
    kubernetes.set_image_pull_policy(task, "IfNotPresent")
    kubernetes.set_security_context(task, run_as_user=USER, run_as_group=USER, run_as_non_root=True)
    kubernetes.add_pod_annotation(task, "cluster-autoscaler.kubernetes.io/safe-to-evict", "false")
    labels = {"app.kubernetes.io/name": "posttrain", f"{LABEL}role": role}
    for name, value in labels.items():
        kubernetes.add_pod_label(task, name, value)
    kubernetes.use_field_path_as_env(task, POD, "metadata.name")
    for name, keys in settings.secrets:
        kubernetes.use_secret_as_env(task, name, {key: key for key in keys})
    for name, keys in settings.config_maps:
        kubernetes.use_config_map_as_env(task, name, {key: key for key in keys})


def _stage_labels(task: PipelineTask, stage: Stage) -> None:
    """Label a pod by what it shares with others: a label of one stage's own would be a copy of all else for it."""
    kubernetes.add_pod_label(task, COMPONENT, stage.component.name)
    kubernetes.add_pod_label(task, f"{LABEL}pool", stage.pool)
