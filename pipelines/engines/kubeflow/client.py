"""Kubeflow Pipelines as the command line sees it: kfp's own client, with bounded waits and readable errors."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass
from typing import Any

import urllib3
import yaml

from components.contract.errors import InputError, PosttrainError, did_you_mean
from pipelines.engines.kubeflow.account import TOKEN_FILE, Account
from pipelines.engines.shared.follower import OrchestratorAway

TIMEOUT_SECONDS = 30
"""Timeout of one request; the library waits forever by default."""
OURS = "posttrain schedule: "
"""Begins the description of a recurring run of ours; others of the same name are left alone."""
PAGE_SIZE = 100
FINAL = ("SUCCEEDED", "SKIPPED", "FAILED", "CANCELED", "ERROR")
"""Final states of a run. kfp's own wait does not handle CANCELED, and never ends."""


class KubeflowUnavailable(OrchestratorAway):
    """Kubeflow does not answer properly."""


class NotFound(PosttrainError):
    """Kubeflow has no such run."""


class NotNow(PosttrainError):
    """Kubeflow refuses this in the run's current state."""


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
    """One session with Kubeflow."""

    def __init__(self, account: Account) -> None:
        """Raise KubeflowUnavailable if nothing answers."""
        import kfp

        self.account = account
        named = {"namespace": account.namespace} if account.namespace else {}
        with _asking(account.url), warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            renewed = account if account.token_file else None
            self._kfp = kfp.Client(host=account.url, existing_token=account.token, credentials=renewed, **named)
        self._runs = self._kfp._run_api  # the only way to give a request a time limit
        self._recurring = self._kfp._recurring_run_api

    def submit(
        self, pipeline: str, arguments: Mapping[str, Any], *, name: str, experiment: str, words: str = ""
    ) -> str:
        """Start a run of a compiled pipeline and return its id; `words` is its description.

        Raises InputError for arguments that the pipeline does not have or lacks; Kubeflow would accept them silently.
        """
        from kfp_server_api import V2beta1Run

        body = self._body(pipeline, arguments, experiment)
        run = V2beta1Run(display_name=name, description=words, **body)
        with _asking(self.account.url):
            started = self._runs.run_service_create_run(run, _request_timeout=TIMEOUT_SECONDS)
        run_id: str = started.run_id
        return run_id

    def going_on(self, experiment: str, words: str) -> str | None:
        """Return the newest run with this description that has not ended, among the last hundred of an experiment."""
        with _asking(self.account.url), redirect_stdout(sys.stderr):
            found = self._runs.run_service_list_runs(
                experiment_id=self._experiment(experiment),
                sort_by="created_at desc",
                page_size=PAGE_SIZE,
                _request_timeout=TIMEOUT_SECONDS,
            )
        going = [run for run in found.runs or [] if run.description == words and run.state not in FINAL]
        run_id: str | None = going[0].run_id if going else None
        return run_id

    def state(self, run: str) -> RunState:
        """Return a run's state; raise NotFound or KubeflowUnavailable."""
        with _asking(self.account.url):
            found = self._runs.run_service_get_run(run, _request_timeout=TIMEOUT_SECONDS)
        tasks = (found.run_details.task_details if found.run_details else None) or []
        running = frozenset(task.display_name for task in tasks if task.state == "RUNNING" and task.display_name)
        message = found.error.message if found.error else ""
        return RunState(found.state or "PENDING", message or "", running)

    def terminate(self, run: str) -> None:
        """Stop a run."""
        with _asking(self.account.url):
            self._runs.run_service_terminate_run(run, _request_timeout=TIMEOUT_SECONDS)

    def retry(self, run: str) -> None:
        """Rerun the unsuccessful tasks of a failed or stopped run; raise NotNow otherwise."""
        with _asking(self.account.url):
            self._runs.run_service_retry_run(run, _request_timeout=TIMEOUT_SECONDS)

    def schedule(
        self, pipeline: str, arguments: Mapping[str, Any], *, name: str, cron: str, words: str
    ) -> RecurringRun:
        """Create a recurring run of a compiled pipeline: one run at a time, and missed times are not caught up on.

        Raises InputError for arguments that the pipeline does not have or lacks.
        """
        from kfp_server_api import RecurringRunMode, V2beta1CronSchedule, V2beta1RecurringRun, V2beta1Trigger

        recurring = V2beta1RecurringRun(
            display_name=name,
            description=f"{OURS}{words}",
            trigger=V2beta1Trigger(cron_schedule=V2beta1CronSchedule(cron=cron)),
            mode=RecurringRunMode.ENABLE,
            max_concurrency=1,
            no_catchup=True,
            **self._body(pipeline, arguments, name),
        )
        with _asking(self.account.url):
            made = self._recurring.recurring_run_service_create_recurring_run(
                recurring, _request_timeout=TIMEOUT_SECONDS
            )
        return _recurring(made)

    def recurring_runs(self, name: str | None = None) -> list[RecurringRun]:
        """Return the recurring runs that `schedule` created, of all recipes or of one."""
        found: list[RecurringRun] = []
        token = ""
        place = {"namespace": self.account.namespace} if self.account.namespace else {}
        with _asking(self.account.url):
            while True:
                page = self._recurring.recurring_run_service_list_recurring_runs(
                    page_token=token, page_size=PAGE_SIZE, _request_timeout=TIMEOUT_SECONDS, **place
                )
                listed = page.recurring_runs or []
                found += [_recurring(one) for one in listed if (one.description or "").startswith(OURS)]
                token = page.next_page_token or ""
                if not token:
                    return [one for one in found if name in (None, one.name)]

    def disable_recurring_run(self, recurring: str) -> None:
        """Switch a recurring run off; the run that is going goes on."""
        with _asking(self.account.url):
            self._recurring.recurring_run_service_disable_recurring_run(recurring, _request_timeout=TIMEOUT_SECONDS)

    def delete_recurring_run(self, recurring: str) -> None:
        """Delete a recurring run; its runs stay. One that is gone already is no error."""
        with suppress(NotFound), _asking(self.account.url):
            self._recurring.recurring_run_service_delete_recurring_run(recurring, _request_timeout=TIMEOUT_SECONDS)

    def recurring_page(self, recurring: str) -> str:
        """Return a recurring run's page."""
        return f"{self.account.url}/#/recurringrun/details/{recurring}"

    def page(self, run: str) -> str:
        """Return a run's page."""
        return f"{self.account.url}/#/runs/details/{run}"

    def _body(self, pipeline: str, arguments: Mapping[str, Any], experiment: str) -> dict[str, Any]:
        """Return what runs and recurring runs of a compiled pipeline have in common."""
        from kfp_server_api import V2beta1RuntimeConfig

        check_arguments(pipeline, arguments)
        spec, platform = yaml.load_all(pipeline, yaml.CSafeLoader)
        with _asking(self.account.url), redirect_stdout(sys.stderr):
            return {
                "experiment_id": self._experiment(experiment),
                "pipeline_spec": {"pipeline_spec": spec, "platform_spec": platform},
                "runtime_config": V2beta1RuntimeConfig(parameters=dict(arguments)),
                "service_account": self.account.service_account,
                **self.account.plugins_input(experiment),
            }

    def _experiment(self, name: str) -> str:
        """Return the id of an experiment, which is created if it is new."""
        found: str = self._kfp.create_experiment(name, namespace=self.account.namespace).experiment_id
        return found


def _recurring(shown: Any) -> RecurringRun:
    words = (shown.description or "").removeprefix(OURS)
    return RecurringRun(shown.recurring_run_id, shown.display_name, shown.mode != "DISABLE", words)


def check_arguments(pipeline: str, arguments: Mapping[str, Any]) -> None:
    """Raise InputError for arguments that a compiled pipeline does not have, or lacks."""
    spec = next(yaml.load_all(pipeline, yaml.CSafeLoader))
    known = spec.get("root", {}).get("inputDefinitions", {}).get("parameters", {})
    lines = [f"unknown parameter {name!r}{did_you_mean(name, known)}" for name in arguments if name not in known]
    missing = [name for name, item in known.items() if not item.get("isOptional") and name not in arguments]
    lines += [f"parameter {name!r} has no default, and no value was given" for name in missing]
    if lines:
        raise InputError("\n".join(lines))


@contextmanager
def _asking(url: str) -> Iterator[None]:
    """Turn kfp's exceptions into readable errors."""
    from kfp_server_api import ApiException

    try:
        yield
    except ApiException as error:
        kinds = {404: NotFound, 400: NotNow, 409: NotNow, 412: NotNow}
        kind = kinds.get(error.status, KubeflowUnavailable)
        detail = " ".join(str(error.body or error.reason or "").split())[:300]
        if error.status == 401:
            detail += f" (a token that has expired? {TOKEN_FILE} names a file that is read again for each request)"
        raise kind(f"Kubeflow at {url}: HTTP {error.status}: {detail}") from None
    except (urllib3.exceptions.HTTPError, OSError, TimeoutError) as error:
        text = " ".join(str(error).split())[:300]
        raise KubeflowUnavailable(f"Kubeflow at {url} does not answer: {text}") from None
