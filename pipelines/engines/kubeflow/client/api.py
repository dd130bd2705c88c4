"""Kubeflow Pipelines as the command line and a task see it: runs, experiments and recurring runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import yaml

from components.contract.errors import InputError, did_you_mean
from pipelines.engines.kubeflow.client.account import Account
from pipelines.engines.kubeflow.client.rest import Answer, NotFound, NotNow, Rest, word

OURS = "posttrain schedule: "
"""Begins the description of a recurring run of ours; others of the same name are left alone."""
PAGE_SIZE = 100
FINAL = ("SUCCEEDED", "SKIPPED", "FAILED", "CANCELED", "ERROR")
"""Final states of a run. kfp's own wait does not handle CANCELED, and never ends."""


@dataclass(frozen=True)
class RunState:
    """A run's state as Kubeflow reports it."""

    state: str
    error: str
    """Its error message; often empty."""
    running: frozenset[str]
    """Names of tasks whose containers are running."""

    @property
    def final(self) -> bool:
        """Return whether the run has ended."""
        return self.state in FINAL


@dataclass(frozen=True)
class RecurringRun:
    """A schedule of a recipe, as Kubeflow reports it."""

    id: str
    name: str
    on: bool
    words: str
    """What it was created with: times and store."""


class Client:
    """Kubeflow Pipelines with one account; every request is one of its own."""

    def __init__(self, account: Account) -> None:
        self.account = account
        self._rest = Rest(account)

    def submit(
        self, pipeline: str, arguments: Mapping[str, Any], *, name: str, experiment: str, words: str = ""
    ) -> str:
        """Start a run of a compiled pipeline and return its id; `words` is its description.

        Raises InputError for arguments that the pipeline does not have or lacks; Kubeflow would accept them silently.
        """
        body = self._body(pipeline, arguments, experiment)
        return self._start({"display_name": name, "description": words, **body})

    def submit_beside(
        self, parent: Answer, pipeline: str, arguments: Mapping[str, Any], *, name: str, words: str
    ) -> str:
        """Start a run in the place of another: in its experiment, as its account. MLflow's plugin knows that one."""
        body = {**_pipeline(pipeline, arguments), "experiment_id": parent["experiment_id"]}
        if account := parent.get("service_account"):
            body["service_account"] = account
        if parent.get("plugins_input"):
            body["plugins_input"] = {"mlflow": {"disabled": True}}
        return self._start({"display_name": name, "description": words, **body})

    def going_on(self, experiment: str, words: str) -> str | None:
        """Return the newest run with this description that has not ended, among the last hundred of an experiment."""
        return self.going_beside(self._experiment(experiment), words)

    def going_beside(self, experiment_id: str, words: str) -> str | None:
        """Return the same of an experiment whose id is known."""
        found = self._rest.ask(
            "GET", "/runs", experiment_id=experiment_id, sort_by="created_at desc", page_size=PAGE_SIZE
        )
        going = (run for run in found.get("runs") or [] if run.get("description") == words)
        return next((str(run["run_id"]) for run in going if run.get("state") not in FINAL), None)

    def run(self, run: str) -> Answer:
        """Return all that Kubeflow knows of a run."""
        return self._rest.ask("GET", f"/runs/{word(run)}")

    def state(self, run: str) -> RunState:
        """Return a run's state; raise NotFound or KubeflowUnavailable."""
        found = self.run(run)
        tasks = (found.get("run_details") or {}).get("task_details") or []
        going = (task.get("display_name") for task in tasks if task.get("state") == "RUNNING")
        message = (found.get("error") or {}).get("message") or ""
        return RunState(found.get("state") or "PENDING", str(message), frozenset(name for name in going if name))

    def terminate(self, run: str) -> None:
        """Stop a run."""
        self._rest.ask("POST", f"/runs/{word(run)}:terminate")

    def retry(self, run: str) -> None:
        """Rerun the unsuccessful tasks of a failed or stopped run; raise NotNow otherwise."""
        self._rest.ask("POST", f"/runs/{word(run)}:retry")

    def schedule(
        self, pipeline: str, arguments: Mapping[str, Any], *, name: str, cron: str, words: str
    ) -> RecurringRun:
        """Create a recurring run of a compiled pipeline: one run at a time, and missed times are not caught up on.

        Raises InputError for arguments that the pipeline does not have or lacks.
        """
        recurring = {
            "display_name": name,
            "description": f"{OURS}{words}",
            "trigger": {"cron_schedule": {"cron": cron}},
            "mode": "ENABLE",
            "max_concurrency": "1",
            "no_catchup": True,
            **self._body(pipeline, arguments, name),
        }
        return _recurring(self._rest.ask("POST", "/recurringruns", recurring))

    def recurring_runs(self, name: str | None = None) -> list[RecurringRun]:
        """Return the recurring runs that `schedule` created, of all recipes or of one."""
        found: list[RecurringRun] = []
        token = ""
        place = {"namespace": self.account.namespace} if self.account.namespace else {}
        while True:
            page = self._rest.ask("GET", "/recurringruns", page_token=token, page_size=PAGE_SIZE, **place)
            listed = page.get("recurringRuns") or []
            found += [_recurring(one) for one in listed if (one.get("description") or "").startswith(OURS)]
            token = page.get("next_page_token") or ""
            if not token:
                return [one for one in found if name in (None, one.name)]

    def disable_recurring_run(self, recurring: str) -> None:
        """Switch a recurring run off; the run that is going goes on."""
        self._rest.ask("POST", f"/recurringruns/{word(recurring)}:disable")

    def delete_recurring_run(self, recurring: str) -> None:
        """Delete a recurring run; its runs stay. One that is gone already is no error."""
        with suppress(NotFound):
            self._rest.ask("DELETE", f"/recurringruns/{word(recurring)}")

    def recurring_page(self, recurring: str) -> str:
        """Return a recurring run's page."""
        return f"{self.account.url}/#/recurringrun/details/{recurring}"

    def page(self, run: str) -> str:
        """Return a run's page."""
        return f"{self.account.url}/#/runs/details/{run}"

    def _start(self, body: Mapping[str, Any]) -> str:
        return self._rest.ask_for("run_id", "POST", "/runs", body)

    def _body(self, pipeline: str, arguments: Mapping[str, Any], experiment: str) -> dict[str, Any]:
        """Return what runs and recurring runs of a compiled pipeline have in common."""
        body = {**_pipeline(pipeline, arguments), "experiment_id": self._experiment(experiment)}
        if self.account.service_account:
            body["service_account"] = self.account.service_account
        return {**body, **self.account.plugins_input(experiment)}

    def _experiment(self, name: str) -> str:
        """Return the id of an experiment, which is created if it is new."""
        if found := self._known_experiment(name):
            return found
        place = {"namespace": self.account.namespace} if self.account.namespace else {}
        try:
            return self._rest.ask_for("experiment_id", "POST", "/experiments", {"display_name": name, **place})
        except NotNow:  # somebody else has just made it
            if found := self._known_experiment(name):
                return found
            raise

    def _known_experiment(self, name: str) -> str | None:
        wanted = json.dumps({"predicates": [{"operation": "EQUALS", "key": "display_name", "stringValue": name}]})
        place = {"namespace": self.account.namespace} if self.account.namespace else {}
        listed = self._rest.ask("GET", "/experiments", filter=wanted, **place).get("experiments") or []
        return next((str(one["experiment_id"]) for one in listed if one.get("display_name") == name), None)


def _pipeline(pipeline: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    check_arguments(pipeline, arguments)
    spec, platform = yaml.load_all(pipeline, yaml.CSafeLoader)
    return {
        "pipeline_spec": {"pipeline_spec": spec, "platform_spec": platform},
        "runtime_config": {"parameters": dict(arguments)},
    }


def _recurring(shown: Answer) -> RecurringRun:
    words = (shown.get("description") or "").removeprefix(OURS)
    return RecurringRun(shown["recurring_run_id"], shown["display_name"], shown.get("mode") != "DISABLE", words)


def check_arguments(pipeline: str, arguments: Mapping[str, Any]) -> None:
    """Raise InputError for arguments that a compiled pipeline does not have, or lacks."""
    spec = next(yaml.load_all(pipeline, yaml.CSafeLoader))
    known = spec.get("root", {}).get("inputDefinitions", {}).get("parameters", {})
    lines = [f"unknown parameter {name!r}{did_you_mean(name, known)}" for name in arguments if name not in known]
    missing = [name for name, item in known.items() if not item.get("isOptional") and name not in arguments]
    lines += [f"parameter {name!r} has no default, and no value was given" for name in missing]
    if lines:
        raise InputError("\n".join(lines))
