"""A stage as a pod: its manifest, and why it cannot run.

The container runs the launcher that the local engine runs, with the same job from the store. Secrets are named, never
read: only the cluster gives their values to the container.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from components.contract.errors import InputError
from components.contract.job import Job
from components.runtime.checkpoints.termination import GRACE, SPARE_SECONDS
from pipelines.engines.shared import pool_parts
from pipelines.engines.shared.attempt import STARTUP_SECONDS
from pipelines.engines.shared.container import IMAGES, USER, image_kind, label_value
from pipelines.engines.shared.launcher import LAUNCHER, as_list, launcher_arguments
from pipelines.recipe.pods.values import object_name, pinned_image
from pipelines.recipe.pools import Pool

CONTAINER = "stage"
SCHEDULE_SECONDS = 6 * 3600
"""How long a pod may wait for a node: the autoscaler brings one up, or another job's GPUs become free."""
GRACE_SECONDS = 120
"""Between SIGTERM and SIGKILL, for a last checkpoint; what takes a node back on AWS gives that long."""
NAMESPACE = "POSTTRAIN_POD_NAMESPACE"
SERVICE_ACCOUNT = "POSTTRAIN_POD_SERVICE_ACCOUNT"
SECRETS = "POSTTRAIN_POD_SECRETS"
CONFIG_MAPS = "POSTTRAIN_POD_CONFIG_MAPS"
CONFIG_MAP = "posttrain"
"""ConfigMap of infra/kubernetes with the addresses of the store and of MLflow, in every namespace that needs it."""
MLFLOW_SECRET = "mlflow-stage"
"""Secret with the account by which MLflow knows stages."""

Manifest = dict[str, Any]


@dataclass(frozen=True)
class PodSettings:
    """Cluster settings of pods, as given; `refusals` yields what in them cannot be used."""

    images: Mapping[str, str] = field(default_factory=dict)
    """Kind of image (cpu, gpu) -> name@sha256:..."""
    namespace: str = "posttrain"
    service_account: str = "stage"
    secrets: tuple[str, ...] = (MLFLOW_SECRET,)
    """Secrets whose keys become environment variables of the stage."""
    config_maps: tuple[str, ...] = (CONFIG_MAP,)
    """ConfigMaps, likewise."""

    @classmethod
    def read(cls, environ: Mapping[str, str] = os.environ) -> PodSettings:
        """Return the settings in the variables POSTTRAIN_IMAGE_* and POSTTRAIN_POD_*."""
        return cls(
            images={kind: environ[variable] for kind, variable in IMAGES.items() if environ.get(variable)},
            namespace=environ.get(NAMESPACE) or cls.namespace,
            service_account=environ.get(SERVICE_ACCOUNT) or cls.service_account,
            secrets=_listed(environ.get(SECRETS, MLFLOW_SECRET)),
            config_maps=_listed(environ.get(CONFIG_MAPS, CONFIG_MAP)),
        )

    def image(self, pool: Pool) -> str | None:
        """Return the pool's own image, or the GPU image where it has GPUs, and the CPU image where it has none."""
        return pool.image or self.images.get(image_kind(pool.gpus))


def refusals(job: Job, pool: Pool, settings: PodSettings) -> Iterator[str]:
    """Yield each reason why a job cannot run as a pod; nothing if it can."""
    if "://" not in job.store:
        yield f"a pod cannot see the folder {job.store or '(none)'}: set POSTTRAIN_STORE to a bucket, s3://bucket/prefix"
    image, variable = settings.image(pool), IMAGES[image_kind(pool.gpus)]
    if image is None:
        yield f"no image is known: set {variable} to name@sha256:<digest>"
    elif not pool.image:
        yield from _complaint(variable, image, pinned_image)
    named: dict[str, tuple[str, ...]] = {NAMESPACE: (settings.namespace,), SERVICE_ACCOUNT: (settings.service_account,)}
    named |= {SECRETS: settings.secrets, CONFIG_MAPS: settings.config_maps}
    for name, values in named.items():
        for value in values:
            yield from _complaint(name, value, object_name)
    if job.key_variables and not set(settings.secrets) - {MLFLOW_SECRET}:
        held = ", ".join(job.key_variables)
        yield f"its endpoints need {held}: name the Secret of the namespace that holds it in {SECRETS}"


def refuse_pods(jobs: Iterable[Job], pools: Mapping[str, Pool], settings: PodSettings) -> None:
    """Raise InputError with all that keeps jobs from running in pods, one line for each reason."""
    found: dict[str, list[str]] = {}
    for job in jobs:
        for reason in refusals(job, pools[job.resources.pool], settings):
            found.setdefault(f"pool {job.resources.pool!r} runs in pods: {reason}", []).append(job.stage)
    if found:
        raise InputError("\n".join(f"{reason} (stages: {', '.join(stages)})" for reason, stages in found.items()))


def pod_template(job: Job, pool: Pool, settings: PodSettings) -> Manifest:
    """Return the pods of a job as the template of what makes them: a Job, a JobSet, a TrainJob.

    Its labels are cut to what Kubernetes takes. Kueue queues what makes the pods: `pool_parts.queue_labels` are for it.
    """
    labels = {name: label_value(value) for name, value in pool_parts.labels(job, pool).items()}
    metadata = {"labels": labels, "annotations": pool_parts.pod_annotations(pool)}
    return {"metadata": metadata, "spec": pod_spec(job, pool, settings)}


def pod_spec(job: Job, pool: Pool, settings: PodSettings) -> Manifest:
    """Return what a job's pods run, as whom, and on which nodes."""
    spec: Manifest = {
        "restartPolicy": "Never",
        "serviceAccountName": settings.service_account,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "volumes": pool_parts.volumes(job, pool),
        **pool_parts.placement(job, pool),
    }
    spec["containers"] = [_container(job, pool, settings, spec["terminationGracePeriodSeconds"])]
    if job.timeout_seconds:
        # the container enforces it by itself; this is for one that cannot, and includes the image's pull
        spec["activeDeadlineSeconds"] = math.ceil(job.timeout_seconds) + STARTUP_SECONDS
    return spec


def _container(job: Job, pool: Pool, settings: PodSettings, grace_seconds: int) -> Manifest:
    told = {GRACE: str(max(1, grace_seconds - SPARE_SECONDS))}
    locks_memory = pool.fabric is not None and pool.fabric.lock_memory
    return {
        "name": CONTAINER,
        "image": settings.image(pool) or "",
        "imagePullPolicy": "IfNotPresent",
        "command": ["python", "-m", LAUNCHER],
        "args": launcher_arguments(job.store, job.run_id, job.stage, "--alone"),
        "env": as_list({**told, **pool_parts.environment(pool)}),
        "envFrom": [
            *({"secretRef": {"name": name}} for name in settings.secrets),
            *({"configMapRef": {"name": name}} for name in settings.config_maps),
        ],
        "resources": pool_parts.resources(pool),
        "volumeMounts": pool_parts.mounts(pool),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"], **({"add": ["IPC_LOCK"]} if locks_memory else {})},
        },
        # the stage's last line becomes the displayed reason, whatever ended the container
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def _listed(text: str) -> tuple[str, ...]:
    return tuple(filter(None, (part.strip() for part in text.split(","))))


def _complaint(variable: str, text: str, check: Callable[[str], str]) -> Iterator[str]:
    try:
        check(text)
    except ValueError as error:
        yield f"{variable}={text!r}: {error}"
