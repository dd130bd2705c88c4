"""Airflow's pools from infra/pools.yaml: how many jobs of a kind run at once. Imports no Airflow."""

from __future__ import annotations

import os
from collections.abc import Mapping

from pipelines.engines.airflow.client import Client
from pipelines.engines.airflow.names import pool_name
from pipelines.recipe.pools import Pool

POD_SLOTS = 128
"""The cluster's scheduler and its autoscaler decide how many pods really run."""


def slots(pool: Pool) -> int:
    """Return a pool's slots: cores of this machine for the worker, jobs for pods."""
    return POD_SLOTS if pool.runs_on == "pod" else max(os.cpu_count() or 1, pool.cpus)


def slots_of_a_job(pool: Pool) -> int:
    """Return the pool slots that a job takes."""
    return 1 if pool.runs_on == "pod" else pool.cpus


def create_pools(client: Client, pools: Mapping[str, Pool]) -> dict[str, bool]:
    """Create the pools that Airflow lacks and return name -> whether created; existing ones stay unchanged."""
    known = {found["name"] for found in client.all("pools", "pools")}
    made: dict[str, bool] = {}
    for name, pool in pools.items():
        made[pool_name(name)] = pool_name(name) not in known
        if made[pool_name(name)]:
            text = f"posttrain: {pool.summary or name}"
            body = {"name": pool_name(name), "slots": slots(pool), "description": text, "include_deferred": True}
            client.post("pools", body)
    return made
