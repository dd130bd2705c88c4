"""One run of a recipe's DAG in Airflow, as the follower sees it. Imports no Airflow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import quote

from components.contract.errors import InputError
from components.contract.job import Job
from components.runtime.ledger.records import run_key
from components.runtime.store import Store
from pipelines.engines.airflow.catalog import SHOW_METHODS, is_reproduction
from pipelines.engines.airflow.client import Client, NotFound
from pipelines.engines.airflow.names import PLAN, REFUSED, REPORT, approval_task, dag_id, run_id
from pipelines.engines.driver.shown import shown
from pipelines.engines.shared.follower import ASKING, BLOCKED, FAILED, RETRYING, RUNNING, Snapshot, StageState
from pipelines.engines.shared.request import conf_of, data_conf
from pipelines.language.document import display_path
from pipelines.language.find import recipe_name
from pipelines.recipe.recipe import Recipe

ENDED = ("success", "failed", "upstream_failed", "skipped", "removed")
UNDECIDED = ("awaiting_input", "deferred")
DRIVEN = ("running", "deferred", "queued", "scheduled")
"""States of a task whose stage may be at work on the cluster: it waits in the triggerer, or goes on from there."""
WORDS = {"running": RUNNING, "failed": FAILED, "upstream_failed": BLOCKED}
"""Airflow's state of a stage's task -> the follower's word."""


class AirflowRun:
    """A run of a DAG, seen through Airflow's REST interface."""

    name = "Airflow"
    stops = False

    def __init__(self, jobs: Sequence[Job], store: Store, client: Client, dag: str, started: Mapping[str, Any]) -> None:
        """`started` is Airflow's answer to the request for a run of `dag`."""
        self._jobs, self._store, self._client = jobs, store, client
        self._path = run_path(dag, started["dag_run_id"])
        recipe = jobs[0].recipe if jobs else dag
        self.run_id = run_id(recipe, started["dag_run_id"], datetime.fromisoformat(started["run_after"]))

    @classmethod
    def start(cls, recipe: Recipe, jobs: Sequence[Job], store: Store, client: Client) -> AirflowRun:
        """Start a run of a recipe's DAG with the recipe's overrides."""
        dag = dag_of(recipe, client)
        started = client.post(
            f"dags/{dag}/dagRuns", {"logical_date": None, "conf": conf_of(recipe) | data_conf(recipe)}
        )
        return cls(jobs, store, client, dag, started)

    @property
    def page(self) -> str:
        """Return the run's page."""
        return f"{self._client.account.url}/{self._path.replace('dagRuns', 'runs')}"

    def look(self) -> Snapshot:
        """Return the run now; raise InputError if its first task refused it, or wrote it to another store."""
        run = self._client.get(self._path)
        listed = self._client.all(f"{self._path}/taskInstances", "task_instances")
        tasks = {task["task_id"]: task for task in listed}
        self._check_begin(tasks.get(PLAN, {}).get("state"))
        states = {job.stage: self._state(job, tasks) for job in self._jobs}
        over = run["state"] in ("success", "failed") and tasks.get(REPORT, {}).get("state") in (*ENDED, None)
        return Snapshot(self.run_id, {stage: state for stage, state in states.items() if state is not None}, over)

    def answer(self, stage: str, *, approved: bool) -> None:
        """Answer the question before a stage, as the user of this session."""
        answer_approval(self._client, self._path, stage, approved=approved)

    def stop(self) -> None:
        """Do nothing: the run belongs to Airflow, where it can be seen and stopped."""

    def close(self) -> str:
        """Return the status of a run whose last task did not record its end."""
        return "failed"

    def _check_begin(self, state: str | None) -> None:
        if state == "failed":
            raise InputError(self._refusal())
        if state == "success" and self._store.get(run_key(self.run_id)) is None:
            raise InputError(f"Airflow uses a different store from {self._store.uri}: pass that one with --store")

    def _refusal(self) -> str:
        task = f"{self._path}/taskInstances/{PLAN}"
        try:
            return str(self._client.get(f"{task}/xcomEntries/{REFUSED}")["value"]).strip('"')
        except NotFound:
            return f"the run's first task failed; its log: {self.page}/tasks/{PLAN}"

    def _state(self, job: Job, tasks: Mapping[str, Any]) -> StageState | None:
        question = tasks.get(approval_task(job.stage), {}).get("state")
        if question in UNDECIDED:
            return StageState(ASKING)
        task = tasks.get(job.stage, {})
        state = "failed" if question == "failed" else task.get("state")
        if state in DRIVEN and (found := shown(self._store, self.run_id, job.stage)):
            return found
        if state == "up_for_retry":
            tried = task.get("try_number") or 1
            return StageState(RETRYING, tried, job.retry.pause_before(tried))
        return StageState(WORDS[state]) if state in WORDS else None


def dag_of(recipe: Recipe, client: Client) -> str:
    """Return the id of the recipe's DAG; raise InputError if Airflow has none, or has paused it."""
    found = find_dag(recipe, client)
    dag: str = found["dag_id"]
    if found["is_paused"]:
        raise InputError(f"DAG {dag!r} is paused in Airflow: switch it on at {client.account.url}")
    return dag


def find_dag(recipe: Recipe, client: Client) -> dict[str, Any]:
    """Return the recipe's DAG as Airflow shows it; raise InputError if Airflow has none."""
    name = recipe_name(recipe.path)
    if name is None:
        where = display_path(recipe.path)
        raise InputError(f"{where} is in no folder that Airflow reads: put it into one of POSTTRAIN_RECIPES")
    try:
        found: dict[str, Any] = client.get(f"dags/{dag_id(name)}")
    except NotFound:
        if is_reproduction(recipe.path):
            where = f"Airflow at {client.account.url}"
            raise InputError(f"{where} has no reproductions of methods: set {SHOW_METHODS}=1 there") from None
        errors = client.all("importErrors", "import_errors")
        said = "".join(f"\n{error['stack_trace'].strip()}" for error in errors)
        raise InputError(f"Airflow at {client.account.url} has no DAG {dag_id(name)!r}{said}") from None
    return found


def run_path(dag: str, airflow_run: str) -> str:
    """Return a DAG run's path in the REST interface."""
    return f"dags/{dag}/dagRuns/{quote(airflow_run, safe='')}"


def answer_approval(client: Client, run_path: str, stage: str, *, approved: bool) -> None:
    """Answer the question before a stage, as the user of this session."""
    task = quote(approval_task(stage), safe="")
    body = {"chosen_options": ["Approve" if approved else "Reject"], "params_input": {}}
    client.patch(f"{run_path}/taskInstances/{task}/-1/hitlDetails", body)
