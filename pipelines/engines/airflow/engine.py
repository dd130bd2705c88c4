"""The Airflow engine as the command line sees it: starts a run of a recipe's DAG and follows it. Imports no Airflow."""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import datetime
from typing import Any
from urllib.parse import quote

from components.contract.errors import InputError
from components.runtime.ledger.records import end_key, failure_key, run_key, stage_key
from components.runtime.store import Store
from pipelines.engines.airflow.client import AirflowUnavailable, Client, NotFound
from pipelines.engines.airflow.names import PLAN, REFUSED, REPORT, approval_task, dag_id, run_id
from pipelines.engines.shared.ending import run_result
from pipelines.engines.shared.request import conf_of, refuse_other_graph
from pipelines.language.document import display_path
from pipelines.language.find import recipe_name
from pipelines.plan.plan import Plan
from pipelines.recipe.recipe import Recipe, load_recipe
from pipelines.runs.runs import RunResult
from pipelines.runs.view import RunView

POLL_SECONDS = 1.0
AWAY_SECONDS = 120.0
"""How long Airflow may be away, such as during a restart, before following ends; the run itself goes on."""
ENDED = ("success", "failed", "upstream_failed", "skipped", "removed")
UNDECIDED = ("awaiting_input", "deferred")


def run_on_airflow(plan: Plan, store: Store, client: Client, *, view: RunView) -> RunResult:
    """Start a run of the plan's recipe in Airflow and follow it to its end.

    Raises InputError for what Airflow would refuse, and PosttrainError if it cannot be reached.
    """
    recipe = plan.recipe
    refuse_other_graph(load_recipe(str(recipe.path), whole=True), recipe)
    dag = _dag_of(recipe, client)
    started = client.post(f"dags/{dag}/dagRuns", {"logical_date": None, "conf": conf_of(recipe)})
    run = run_id(recipe.name, started["dag_run_id"], datetime.fromisoformat(started["run_after"]))
    follower = Follower(plan.with_run_id(run), store, client, view, dag, started["dag_run_id"])
    with view.showing():
        status = follower.follow()
    return run_result(store, run, status)


def _dag_of(recipe: Recipe, client: Client) -> str:
    """Return the id of the recipe's DAG; raise InputError if Airflow has none, or has paused it."""
    name = recipe_name(recipe.path)
    if name is None:
        where = display_path(recipe.path)
        raise InputError(f"{where} is in no folder that Airflow reads: put it into one of POSTTRAIN_RECIPES")
    try:
        found = client.get(f"dags/{dag_id(name)}")
    except NotFound:
        errors = client.all("importErrors", "import_errors")
        said = "".join(f"\n{error['stack_trace'].strip()}" for error in errors)
        raise InputError(f"Airflow at {client.account.url} has no DAG {dag_id(name)!r}{said}") from None
    if found["is_paused"]:
        raise InputError(f"DAG {dag_id(name)!r} is paused in Airflow: switch it on at {client.account.url}")
    return dag_id(name)


class Follower:
    """Shows a run from what its tasks are doing in Airflow and from what is in the ledger."""

    def __init__(self, plan: Plan, store: Store, client: Client, view: RunView, dag: str, airflow_run: str) -> None:
        self._plan, self._store, self._client, self._view = plan, store, client, view
        self._path = run_path(dag, airflow_run)
        self._told: dict[str, str] = {}
        self._asked: set[str] = set()

    def follow(self) -> str:
        """Return how the run ended: succeeded, failed, stopped, or waiting for a person who is not here."""
        away: float | None = None
        while True:
            try:
                run = self._client.get(self._path)
                listed = self._client.all(f"{self._path}/taskInstances", "task_instances")
                tasks = {task["task_id"]: task for task in listed}
                away = None
            except AirflowUnavailable:
                away = away or time.monotonic()
                if time.monotonic() - away > AWAY_SECONDS:
                    raise
                time.sleep(POLL_SECONDS)
                continue
            self._refuse(tasks)
            for job in self._plan.jobs:
                self._show(job.stage, tasks)
            if self._ended(run, tasks):
                end = self._store.get(end_key(self._plan.run_id))
                return end["status"] if end else "failed"
            if self._waits(tasks):
                return "waiting"
            time.sleep(POLL_SECONDS)

    def _refuse(self, tasks: dict[str, Any]) -> None:
        """Raise InputError when the run's first task refused it, or wrote it to another store."""
        state = tasks.get(PLAN, {}).get("state")
        if state == "failed":
            raise InputError(self._refusal())
        if state == "success" and self._store.get(run_key(self._plan.run_id)) is None:
            raise InputError(f"Airflow works on another store than {self._store.uri}: name that one with --store")

    def _refusal(self) -> str:
        task = f"{self._path}/taskInstances/{PLAN}"
        try:
            return str(self._client.get(f"{task}/xcomEntries/{REFUSED}")["value"]).strip('"')
        except NotFound:
            log = f"{self._client.account.url}/{self._path.replace('dagRuns', 'runs')}/tasks/{PLAN}"
            return f"the run's first task failed; its log: {log}"

    def _show(self, stage: str, tasks: dict[str, Any]) -> None:
        """Tell the view what is new of a stage."""
        state = self._state(stage, tasks)
        if state is None or self._told.get(stage) == state:
            return
        event: dict[str, Any] = {"stage": stage, "time": time.time()}
        if state == "done":
            entry = self._store.get(stage_key(self._plan.run_id, stage)) or {}
            event |= {name: entry[name] for name in ("status", "cache", "metrics", "seconds")}
            self._view.event({**event, "event": "finished"})
        elif state == "running":
            self._view.event({**event, "event": "started", "resumed_from": None})
        elif state == "up_for_retry":
            job = next(job for job in self._plan.jobs if job.stage == stage)
            attempt = tasks[stage].get("try_number") or 1
            seconds, error = job.retry.backoff_seconds, self._error(stage)
            self._view.event({**event, "event": "retry", "attempt": attempt, "seconds": seconds, "error": error})
        elif state == "failed":
            self._view.event({**event, "event": "failed", "error": self._error(stage)})
        elif state == "upstream_failed":
            self._view.event({**event, "event": "blocked"})
        elif state == "approval":
            self._view.event({**event, "event": "approval", "run_id": self._plan.run_id})
        self._told[stage] = state

    def _state(self, stage: str, tasks: dict[str, Any]) -> str | None:
        if self._told.get(stage) != "done" and self._store.get(stage_key(self._plan.run_id, stage)):
            return "done"
        if self._told.get(stage) == "done":
            return None
        question = tasks.get(approval_task(stage), {}).get("state")
        if question in UNDECIDED:
            return "approval"
        return "failed" if question == "failed" else tasks.get(stage, {}).get("state")

    def _error(self, stage: str) -> str:
        failure = self._store.get(failure_key(self._plan.run_id, stage))
        return failure["error"] if failure else "its task failed; Airflow's log of it says more"

    def _ended(self, run: dict[str, Any], tasks: dict[str, Any]) -> bool:
        """Return whether the run and its report have ended."""
        return run["state"] in ("success", "failed") and tasks.get(REPORT, {}).get("state") in (*ENDED, None)

    def _waits(self, tasks: dict[str, Any]) -> bool:
        """Ask here, if somebody is here; return whether nothing goes on but the waiting for a person."""
        waiting = [job for job in self._plan.jobs if self._told.get(job.stage) == "approval"]
        for job in waiting:
            if job.stage not in self._asked:
                self._asked.add(job.stage)
                answer = self._view.ask(job)
                if answer is not None:
                    answer_approval(self._client, self._path, job.stage, approved=answer)
                    return False
        busy = [name for name, task in tasks.items() if _is_busy(name, task, {job.stage for job in waiting})]
        return bool(waiting) and not busy and all(job.stage in self._asked for job in waiting)


def run_path(dag: str, airflow_run: str) -> str:
    """Return where a run of a DAG is in the REST interface."""
    return f"dags/{dag}/dagRuns/{quote(airflow_run, safe='')}"


def answer_approval(client: Client, run_path: str, stage: str, *, approved: bool) -> None:
    """Answer the question before a stage, as the user of this session."""
    task = quote(approval_task(stage), safe="")
    body = {"chosen_options": ["Approve" if approved else "Reject"], "params_input": {}}
    client.patch(f"{run_path}/taskInstances/{task}/-1/hitlDetails", body)


def _is_busy(name: str, task: dict[str, Any], waiting: Iterable[str]) -> bool:
    """Return whether a task runs, or will without anybody's answer."""
    state = task["state"]
    if name in {approval_task(stage) for stage in waiting} and state in UNDECIDED:
        return False
    return state in ("running", "queued", "scheduled", "restarting", "up_for_retry", "up_for_reschedule", *UNDECIDED)
