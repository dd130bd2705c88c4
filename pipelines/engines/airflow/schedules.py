"""Schedules of recipes' DAGs, through Airflow's REST interface. Imports no Airflow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from components.contract.errors import InputError
from pipelines.engines.airflow.client import Client
from pipelines.engines.airflow.names import TAG
from pipelines.engines.airflow.run import find_dag
from pipelines.engines.engine import KeptSchedule
from pipelines.recipe.recipe import Recipe


def switch(recipe: Recipe, client: Client, *, on: bool) -> KeptSchedule:
    """Pause or unpause a recipe's DAG; raise InputError for one without a schedule, or with other parameters."""
    if recipe.schedule is None:
        raise InputError(f"recipe {recipe.name!r} has no 'schedule'")
    if on and recipe.overrides:
        raise InputError(
            f"Airflow's scheduled runs have the recipe's own parameters, without --set: write a recipe that extends "
            f"{recipe.name!r} with those values"
        )
    dag = find_dag(recipe, client)
    client.patch(f"dags/{dag['dag_id']}", {"is_paused": not on})
    return _kept(client.get(f"dags/{dag['dag_id']}"), client)


def listed(client: Client) -> list[KeptSchedule]:
    """Return the DAGs of recipes with a schedule."""
    dags = client.all("dags", "dags", tags=[TAG])
    return [_kept(dag, client) for dag in dags if dag["timetable_summary"]]


def _kept(dag: Mapping[str, Any], client: Client) -> KeptSchedule:
    following = None if dag["is_paused"] else dag.get("next_dagrun_run_after")
    when = " ".join(filter(None, [dag["timetable_summary"], dag.get("timetable_description")]))
    page = f"{client.account.url}/dags/{dag['dag_id']}"
    return KeptSchedule(name=dag["dag_id"], on=not dag["is_paused"], when=when, next=following, page=page)
