"""The stage on two nodes of recipes/nodes.yaml: its job, what its driver is told, and its JobSet."""

from __future__ import annotations

from typing import Any

from components.contract.job import Job
from pipelines.engines.kubeflow.jobsets.jobset import settings_of
from pipelines.engines.kubeflow.jobsets.manifest import jobset_manifest, jobset_name
from pipelines.plan.plan import build_plan
from pipelines.recipe.pools import Pool
from pipelines.recipe.recipe import load_recipe
from tests.pipelines.engines.kubeflow.examples import FOLDER, compiled, executor_of, parsed

RUN = "nodes-20261121-120000-ab12cd34"


def job(store: str) -> Job:
    """Return the job of the stage on two nodes."""
    (found,) = build_plan(load_recipe(str(FOLDER / "recipes" / "nodes.yaml")), store, RUN).jobs
    return found


def driver_arguments() -> dict[str, str]:
    """Return the options that the compiled pipeline gives the stage's task."""
    pipeline, _ = parsed(compiled(FOLDER / "recipes" / "nodes.yaml"))
    arguments = pipeline["deploymentSpec"]["executors"][executor_of(pipeline, "base")]["container"]["args"]
    return dict(zip(arguments[::2], arguments[1::2], strict=False))


def pool() -> Pool:
    """Return the pool as the pipeline describes it to its driver."""
    return Pool.model_validate_json(driver_arguments()["--pool"])


def manifest(store: str = "s3://bucket/store") -> dict[str, Any]:
    """Return the manifest of the stage's first attempt."""
    settings = settings_of(driver_arguments()["--cluster"])
    return jobset_manifest(job(store), pool(), settings, jobset_name(job(store), 0))
