"""Runs of DAGs in one process, without scheduler and server, in Airflow's environment.

    python -m tests.support.dag_runs

Reads {"dags": FOLDER, "runs": [[dag, conf], ...]} from standard input and writes one line of JSON for each run.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def dag_environment(folder: Path, *recipes: Path) -> dict[str, str]:
    """Return the variables of an Airflow and a store below `folder`, with the toy package and these recipes."""
    return {
        **os.environ,
        "AIRFLOW_HOME": str(folder / "home"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "POSTTRAIN_STORE": str(folder / "store"),
        "POSTTRAIN_RECIPES": os.pathsep.join(map(str, recipes)),
        "POSTTRAIN_LINEAGE": "later",
        "PYTHONPATH": os.pathsep.join([str(ROOT / "tests" / "pipelines" / "plugin"), str(ROOT)]),
        "PYTHONWARNINGS": "ignore",
    }


def run_dags(environment: dict[str, str], runs: list[tuple[str, dict[str, Any]]]) -> list[dict[str, Any]]:
    """Run DAGs with their configurations in one process of its own; return what became of each."""
    process = subprocess.run(
        [sys.executable, "-m", "tests.support.dag_runs"],
        cwd=ROOT,
        env=environment,
        input=json.dumps({"dags": environment["AIRFLOW__CORE__DAGS_FOLDER"], "runs": runs}),
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert process.returncode == 0, process.stderr[-4000:]
    return [json.loads(line) for line in process.stdout.splitlines()]


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
    from airflow.models.asset import AssetEvent, AssetModel
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    run = dag.test(run_conf=conf)
    tasks = {task.task_id: str(task.state) for task in run.get_task_instances()}
    with create_session() as session:
        found = session.scalars(select(XComModel).where(XComModel.run_id == run.run_id, XComModel.dag_id == dag.dag_id))
        values = {f"{item.task_id}:{item.key}": item.value for item in found}
        happened = select(AssetModel.uri, AssetEvent.extra).join(AssetEvent, AssetEvent.asset_id == AssetModel.id)
        events = session.execute(happened.where(AssetEvent.source_run_id == run.run_id)).all()
    return {"state": str(run.state), "tasks": tasks, "values": values, "assets": dict(map(tuple, events))}


if __name__ == "__main__":
    main()
