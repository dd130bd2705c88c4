"""Submits a plan's recipe to Kubeflow as a pipeline, or resumes a run of it; follows it to its end."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from components.contract.errors import InputError
from components.runtime.ledger.records import end_key, run_key
from components.runtime.store import Store
from pipelines.engines.kubeflow.client.api import Client
from pipelines.engines.kubeflow.client.rest import NotFound, NotNow
from pipelines.engines.kubeflow.client.run import KubeflowRun
from pipelines.engines.kubeflow.compiler.compiler import compile_recipe
from pipelines.engines.kubeflow.compiler.form import arguments_of, form_of
from pipelines.engines.kubeflow.compiler.settings import Settings
from pipelines.engines.kubeflow.names import STORE
from pipelines.engines.shared.ending import run_result
from pipelines.engines.shared.follower import Follower
from pipelines.engines.shared.request import conf_of, refuse_other_graph
from pipelines.plan.plan import Plan
from pipelines.recipe.recipe import Recipe, load_recipe
from pipelines.runs.runs import RunResult, unfinished_run
from pipelines.runs.view import RunView

POLL_SECONDS = 2.0
SUBMIT_SECONDS = 120.0
"""How long another command gets to submit the same."""
OURS = "posttrain run: "
"""Begins the description of a run; what follows is the same for every try at one plan."""


def run_on_kubeflow(
    plan: Plan, store: Store, client: Client, settings: Settings, *, view: RunView, new: bool = False
) -> RunResult:
    """Run a plan's recipe on Kubeflow to its end.

    Goes on with the newest unfinished run of the same plan unless `new`: follows it, or lets Kubeflow try again what
    failed. Raises InputError for what would be refused, and PosttrainError if Kubeflow cannot be reached.
    """
    known = None if new else _unfinished(plan, store, client)
    ended_before = _end(plan, store) if known else None
    kubeflow_run = known or _submit(plan, store, client, settings, new=new)
    submitted = KubeflowRun(plan.jobs, store, client, kubeflow_run)
    follower = Follower(submitted, plan, store, view, ended_before=ended_before, poll_seconds=POLL_SECONDS)
    with view.showing():
        run, status = follower.follow()
    return run_result(store, run, status)


def _unfinished(plan: Plan, store: Store, client: Client) -> str | None:
    """Return Kubeflow's id of a run that goes on, or that was made to; None where a new one is needed."""
    run = unfinished_run(store, plan.digest)
    entry = store.get(run_key(run)) if run else None
    known: str | None = (entry or {}).get("kubeflow", {}).get("run_id")
    if known is None:
        return None
    try:
        if client.state(known).final:
            client.retry(known)
    except (NotFound, NotNow):
        return None
    return known


def _end(plan: Plan, store: Store) -> dict[str, Any] | None:
    run = unfinished_run(store, plan.digest)
    return store.get(end_key(run)) if run else None


def _submit(plan: Plan, store: Store, client: Client, settings: Settings, *, new: bool) -> str:
    """Start a run and return Kubeflow's id; unless `new`, one of the same plan that has not begun is taken for it.

    Until its first task writes to the store, a run is known to Kubeflow alone: its description says what it is of. A
    second command at the same time waits for the first, and one whose answer was lost finds its run.
    """
    recipe = plan.recipe
    words = f"{OURS}plan {plan.digest}, store {store.uri}"
    with store.lock(f"submit-{plan.digest[:32]}", wait_seconds=SUBMIT_SECONDS):
        if not new and (begun := client.going_on(recipe.name, words)):
            return begun
        drawn, arguments = request(recipe, store)
        text = compile_recipe(drawn, settings, store=store.uri)
        return client.submit(text, arguments, name=_run_name(recipe), experiment=recipe.name, words=words)


def request(recipe: Recipe, store: Store) -> tuple[Recipe, dict[str, Any]]:
    """Return the recipe whose pipeline is submitted, and the arguments that ask for what the overrides ask for.

    Overrides that leave the graph as it is become arguments, so that the runs of a recipe are comparable in Kubeflow;
    others, and those that name operators' files, are drawn into a pipeline of their own.
    """
    drawn = replace(load_recipe(str(recipe.path), whole=True), uploads=recipe.uploads)
    more_files = recipe.files and drawn.files and recipe.files.named.keys() - drawn.files.named.keys()
    if more_files or recipe.trees.keys() - drawn.trees.keys():
        return _own_pipeline(recipe), {STORE: store.uri}  # it carries these files
    try:
        refuse_other_graph(drawn, recipe)
    except InputError:
        return _own_pipeline(recipe), {STORE: store.uri}
    arguments = arguments_of(drawn, conf_of(recipe), form_of(drawn, store.uri))
    return drawn, {**arguments, STORE: store.uri}


def _own_pipeline(recipe: Recipe) -> Recipe:
    return replace(load_recipe(str(recipe.path), recipe.overrides, whole=True), uploads=recipe.uploads)


def _run_name(recipe: Recipe) -> str:
    changes = " ".join(recipe.overrides)
    return f"{recipe.name} {changes}".strip()[:128]
