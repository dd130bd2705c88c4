"""The stage on two nodes of recipes/nodes.yaml: its job, what its driver is told, and its work."""

from __future__ import annotations

from typing import Any

from components.contract.job import Job
from pipelines.engines.driver.command import settings_of
from pipelines.engines.driver.kinds import JOBSET, Kind
from pipelines.engines.driver.manifests.work import work_manifest
from pipelines.engines.driver.names import work_name
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


OWNER = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "name": "posttrain-x", "uid": "1-2-3"}


def manifest(kind: Kind = JOBSET, **pool_fields: Any) -> dict[str, Any]:
    """Return the manifest of the stage's first try, on a pool with other fields if so wanted."""
    settings = settings_of(driver_arguments()["--cluster"])
    one = job("s3://bucket/store")
    return work_manifest(kind, one, pool().model_copy(update=pool_fields), settings, work_name(one, 0), OWNER)
