"""The first task of a pipeline: checks what a run asks for, plans it, and writes run and jobs to the store.

python -m pipelines.engines.kubeflow.begin --bundle JSON --kubeflow-run ID --executor-input JSON --run-id FILE
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from components.contract.errors import InputError, PosttrainError
from components.contract.terminal import print_error, visible
from components.runtime.job.process import FAILED, REFUSED
from components.runtime.ledger.operator_code import use_code
from components.runtime.store import Store, open_store
from pipelines.engines.kubeflow.compiler.bundle import Bundle
from pipelines.engines.kubeflow.compiler.form import configuration
from pipelines.engines.kubeflow.compiler.settings import local_file_refusals, raise_refusals
from pipelines.engines.kubeflow.executor import ExecutorInput, write_file
from pipelines.engines.kubeflow.names import STORE, TRIGGER, new_run_id, run_key
from pipelines.engines.shared.request import overrides_of, refuse_other_graph
from pipelines.plan.plan import build_plan
from pipelines.recipe.recipe import Recipe
from pipelines.recipe.schedule.section import Schedule
from pipelines.runs.runs import begin_run
from pipelines.triggers.record import Trigger, by_time

SCHEDULED_FORM = "%Y%m%d%H%M%S"
"""How Kubeflow writes the time of a recurring run."""


def begin(bundle: Bundle, values: Mapping[str, Any], kubeflow_run: str, folder: Path) -> str:
    """Begin or resume the run that `values` request, and return its id.

    A refusal is recorded where the submitter looks for the run's id. Raises InputError for an invalid request.
    """
    store = open_store(str(values.get(STORE) or ""))
    use_code(store)
    bundle.unpack(folder)
    try:
        recipe = requested(bundle, values, folder)
        known = store.get(run_key(kubeflow_run)) or {}
        run_id = known.get("run_id") or new_run_id(recipe.name, kubeflow_run)
        store.put(run_key(kubeflow_run), {"run_id": run_id}, overwrite=True)
        _record(store, bundle, recipe, run_id, kubeflow_run, str(values.get(TRIGGER) or ""))
    except InputError as error:
        said = str(error).replace(f"{folder}/", "")  # the recipe's file under its usual name
        store.put(run_key(kubeflow_run), {"refused": said}, overwrite=True)
        raise InputError(said) from error
    return run_id


def requested(bundle: Bundle, values: Mapping[str, Any], folder: Path) -> Recipe:
    """Return the recipe with a run's parameters applied; raise InputError or RecipeErrors for mistakes in them."""
    own = bundle.load(folder)
    overrides = overrides_of(own, configuration(own, values))
    asked = bundle.load(folder, overrides) if overrides else own
    refuse_other_graph(bundle.load(folder, whole=True), asked)
    raise_refusals(local_file_refusals(asked))
    return asked


def _record(store: Store, bundle: Bundle, recipe: Recipe, run_id: str, kubeflow_run: str, due: str) -> None:
    plan = build_plan(recipe, store.uri, run_id)
    facts = {"kubeflow": {"run_id": kubeflow_run}, "recipe_path": bundle.name}
    begin_run(store, plan, engine="kubeflow", trigger=trigger_of(recipe.schedule, due), **facts)
    print(f"run {run_id}: {len(plan.jobs)} stages in {store.uri}")
    for left in recipe.left_out:
        print(visible(f"left out: {left.name} ({left.reason})"))


def trigger_of(schedule: Schedule | None, told: str) -> Trigger | None:
    """Return what started a run, by the parameter that Kubeflow fills in for a recurring one; None for a person."""
    if not told or schedule is None or schedule.cron is None:
        return None
    try:
        time = datetime.strptime(told, SCHEDULED_FORM).replace(tzinfo=UTC)
    except ValueError:  # a Kubeflow that left the placeholder as it is
        return {"kind": "cron", "cron": schedule.cron.text, "text": f"cron {schedule.cron.words}"}
    return by_time(schedule.cron, time.astimezone(schedule.cron.zone))


def main() -> int:
    """Begin one run; the exit code is 2 for an invalid request."""
    parser = argparse.ArgumentParser(description="Begin a run.")
    parser.add_argument("--bundle", required=True, help="the recipe, as the compiler packed it")
    parser.add_argument("--kubeflow-run", required=True, help="id of Kubeflow's run")
    parser.add_argument("--executor-input", required=True, help="what Kubeflow reports about the task, JSON")
    parser.add_argument("--run-id", required=True, help="file for the id of the run in the ledger")
    arguments = parser.parse_args()
    try:
        told = ExecutorInput.parse(arguments.executor_input)
        with tempfile.TemporaryDirectory() as folder:
            run_id = begin(Bundle.parse(arguments.bundle), told.parameters, arguments.kubeflow_run, Path(folder))
    except PosttrainError as error:
        print_error(error)
        return REFUSED if isinstance(error, InputError) else FAILED
    write_file(arguments.run_id, run_id)
    told.reply({}, {"run_id": run_id})
    return 0


if __name__ == "__main__":
    sys.exit(main())
