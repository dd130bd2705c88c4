"""The beginning of a run: what is asked for is checked, planned, and written to the store."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from components.runtime.ledger.code_trees import publish_code
from components.runtime.store import open_store
from pipelines.engines.airflow.engine import AirflowEngine
from pipelines.engines.airflow.names import run_id_of
from pipelines.engines.airflow.tasks.stage_run import store_uri
from pipelines.engines.airflow.timing import trigger_of
from pipelines.engines.driver.api import Cluster
from pipelines.engines.driver.manifests.work import is_driven
from pipelines.engines.engine import RunOptions
from pipelines.engines.refusals import refuse
from pipelines.engines.shared.pod import PodSettings, refuse_pods
from pipelines.engines.shared.request import requested_recipe
from pipelines.language.synced import commit_of, consistently
from pipelines.plan.plan import build_plan
from pipelines.plan.uploads import local_data
from pipelines.runs.runs import begin_run
from pipelines.runs.uploading import upload


def start_run(path: str, context: Any, log: Any) -> dict[str, Any]:
    """Begin or resume a DAG's run; raise InputError for an invalid request."""
    dag_run = context["dag_run"]
    recipe, commit = consistently(lambda: (requested_recipe(path, dag_run.conf, pods_move=True), commit_of(Path(path))))
    store = open_store(store_uri())
    if not recipe.uploads and any(recipe.pools[stage.pool].runs_on == "pod" for stage in recipe.stages):
        data = local_data(recipe)  # of a run that began in Airflow: its files lie beside the recipe here
        recipe = replace(recipe, uploads=tuple(one.upload for one in data))
        upload(data, store)
    plan = build_plan(recipe, store.uri, run_id_of(recipe.name, dag_run))
    refuse(AirflowEngine(), plan, store, RunOptions())
    driven = [job for job in plan.jobs if is_driven(job, recipe.pools[job.resources.pool])]
    refuse_pods(driven, recipe.pools, PodSettings.read())
    if driven:
        Cluster.inside()  # raises InputError where there is none
    publish_code(store, [code for job in plan.jobs for code in job.code])
    trigger = trigger_of(context, recipe.schedule)
    where = {"dag_id": dag_run.dag_id, "run_id": dag_run.run_id}
    synced = {"recipe_commit": commit} if commit else {}
    begin_run(store, plan, engine="airflow", trigger=trigger, airflow=where, **synced)
    log.info("run %s: %d stages in %s", plan.run_id, len(plan.jobs), store.uri)
    for left in recipe.left_out:
        log.info("left out: %s (%s)", left.name, left.reason)
    return {"run_id": plan.run_id, "store": store.uri, "plan_digest": plan.digest}
