"""Runs of DAGs in one process, without scheduler and server, in Airflow's environment.

    python -m tests.support.dag_runs

Reads {"dags": FOLDER, "runs": [[dag, conf], ...]} from standard input and writes one line of JSON for each run.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def main() -> None:
    """Make Airflow's database, read the DAGs, and run what is asked for, one after the other."""
    asked = json.load(sys.stdin)
    answers, sys.stdout = sys.stdout, sys.stderr  # Airflow prints where it likes
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.dag_processing.dagbag import BundleDagBag, sync_bag_to_db
    from airflow.models.pool import Pool
    from airflow.utils.db import initdb
    from airflow.utils.session import create_session

    from pipelines.engines.airflow.names import pool_name

    initdb()
    with create_session() as session:
        Pool.create_or_update_pool(pool_name("cpu"), 8, "", False, session=session)
    DagBundlesManager().sync_bundles_to_db()
    folder = Path(asked["dags"])
    bag = BundleDagBag(folder, bundle_path=folder, bundle_name="dags-folder")
    sync_bag_to_db(bag, "dags-folder", None)
    for name, conf in asked["runs"]:
        print(json.dumps(_run(bag.dags[name], conf)), file=answers, flush=True)


def _run(dag: Any, conf: dict[str, Any]) -> dict[str, Any]:
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    run = dag.test(run_conf=conf)
    tasks = {task.task_id: str(task.state) for task in run.get_task_instances()}
    with create_session() as session:
        found = session.scalars(select(XComModel).where(XComModel.run_id == run.run_id, XComModel.dag_id == dag.dag_id))
        values = {f"{item.task_id}:{item.key}": item.value for item in found}
    return {"state": str(run.state), "tasks": tasks, "values": values}


if __name__ == "__main__":
    main()
