"""The Airflow engine as the command line sees it: starts a run of a recipe's DAG and follows it. Imports no Airflow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.contract.errors import InputError
from pipelines.engines.engine import Capabilities, Engine, KeptSchedule, RunOptions

if TYPE_CHECKING:
    from components.runtime.store import Store
    from pipelines.engines.airflow.client import Client
    from pipelines.plan.plan import Plan
    from pipelines.recipe.recipe import Recipe
    from pipelines.runs.runs import RunResult
    from pipelines.runs.view import RunView


class AirflowEngine(Engine):
    """Every recipe is a DAG; its stages are processes of the worker, or Jobs, JobSets and TrainJobs of their pools."""

    name = "airflow"
    summary = "as a DAG: tasks on Airflow's worker, or pods"
    capabilities = Capabilities(
        approvals=True,
        retries=True,
        going_on=True,
        timeouts=True,
        several_nodes=True,
        folder_store=True,
        pods=True,
        uploads=True,
        schedules=True,
        data_triggers=True,
        asset_triggers=True,
    )
    decides = "Airflow's pools and their slots decide"

    def refusals(self, plan: Plan) -> Iterator[str]:
        """Yield the operators' files that --set names: Airflow reads the recipe in another folder."""
        for path in sorted(plan.recipe.files.outside if plan.recipe.files else ()):
            if not Path(path).is_absolute():
                yield f"find {path}, which --set names beside this folder: name it in a recipe that extends this one"

    def check_ready(self, recipe: Recipe, store: Store) -> None:
        """Ask Airflow whether it has the recipe's DAG, switched on."""
        from pipelines.engines.airflow.run import dag_of

        dag_of(recipe, _client(store))

    def run(self, plan: Plan, store: Store, view: RunView, options: RunOptions) -> RunResult:
        """Start a run of the recipe's DAG and follow it; every run is a new one, and Ctrl-C only ends the following."""
        return run_on_airflow(plan, store, _client(store), view=view)

    def keep_schedule(self, recipe: Recipe, store: Store) -> KeptSchedule:
        """Switch the recipe's DAG on: its schedule is that of the recipe's file."""
        from pipelines.engines.airflow.schedules import switch

        return switch(recipe, _client(store), on=True)

    def end_schedule(self, recipe: Recipe, store: Store, *, delete: bool) -> KeptSchedule:
        """Pause the recipe's DAG."""
        from pipelines.engines.airflow.schedules import switch

        if delete:
            raise InputError(
                "a DAG has the schedule of its recipe: take 'schedule' out of the file, or pause it (--off)"
            )
        return switch(recipe, _client(store), on=False)

    def kept_schedules(self, store: Store) -> list[KeptSchedule]:
        """Return the schedules of recipes' DAGs."""
        from pipelines.engines.airflow.schedules import listed

        return listed(_client(store))

    def take_decision(self, store: Store, entry: Mapping[str, Any], stage: str, *, approved: bool) -> str | None:
        """Also answer the pending approval in Airflow; the run continues there by itself."""
        from pipelines.engines.airflow.client import NotFound
        from pipelines.engines.airflow.run import answer_approval, run_path

        where = entry.get("airflow")
        if where is None:  # a record without the address
            return None
        client = _client(store)
        try:
            answer_approval(client, run_path(where["dag_id"], where["run_id"]), stage, approved=approved)
        except NotFound:  # not asked yet: its task reads the store first
            return ""
        return f"at {client.account.url}"


def run_on_airflow(plan: Plan, store: Store, client: Client, *, view: RunView) -> RunResult:
    """Start a run of the plan's recipe in Airflow and follow it to its end.

    Raises InputError for what Airflow would refuse, and PosttrainError if Airflow cannot be reached.
    """
    from pipelines.engines.airflow.run import AirflowRun
    from pipelines.engines.shared.ending import run_result
    from pipelines.engines.shared.follower import Follower
    from pipelines.engines.shared.request import refuse_other_graph
    from pipelines.recipe.recipe import load_recipe

    recipe = plan.recipe
    refuse_other_graph(load_recipe(str(recipe.path), whole=True), recipe, pods_move=True)
    started = AirflowRun.start(recipe, plan.jobs, store, client)
    with view.showing():
        run, status = Follower(started, plan, store, view).follow()
    return run_result(store, run, status)


def _client(store: Store) -> Client:
    from pipelines.engines.airflow.client import Account, Client
    from pipelines.engines.airflow.deployment import Deployment

    return Client(Account.read(Deployment.beside(store)))
