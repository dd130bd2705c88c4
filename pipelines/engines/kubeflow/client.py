"""Kubeflow Pipelines as the command line sees it: kfp's own client, with bounded waits and readable errors."""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import urllib3
import yaml

from components.contract.errors import InputError, PosttrainError, did_you_mean
from pipelines.engines.shared.follower import OrchestratorAway

URL = "POSTTRAIN_KUBEFLOW_URL"
TOKEN = "POSTTRAIN_KUBEFLOW_TOKEN"
TOKEN_FILE = "POSTTRAIN_KUBEFLOW_TOKEN_FILE"
NAMESPACE = "POSTTRAIN_KUBEFLOW_NAMESPACE"
SERVICE_ACCOUNT = "POSTTRAIN_KUBEFLOW_SERVICE_ACCOUNT"
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
class Account:
    """Kubeflow's address and the user's login."""

    url: str
    token: str | None = None
    namespace: str | None = None
    """Namespace of a user, if Kubeflow serves several."""
    service_account: str | None = None
    """Service account of the runs' pods; Kubeflow's default if None."""

    @classmethod
    def read(cls, environ: Mapping[str, str] = os.environ) -> Account:
        """Return the account in the variables POSTTRAIN_KUBEFLOW_*; raise InputError without an address."""
        url = environ.get(URL)
        if not url:
            raise InputError(f"no Kubeflow is known: set {URL}, and {TOKEN} or {TOKEN_FILE} where it asks for one")
        token = environ.get(TOKEN)
        if token is None and (path := environ.get(TOKEN_FILE)):
            try:
                token = Path(path).read_text().strip()
            except OSError as error:
                raise InputError(f"{TOKEN_FILE}: {path}: {error.strerror}") from None
        return cls(url.rstrip("/"), token, environ.get(NAMESPACE) or None, environ.get(SERVICE_ACCOUNT) or None)


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
            self._kfp = kfp.Client(host=account.url, existing_token=account.token, **named)
        self._runs = self._kfp._run_api  # the only way to give a request a time limit
        self._recurring = self._kfp._recurring_run_api

    def submit(self, pipeline: str, arguments: Mapping[str, Any], *, name: str, experiment: str) -> str:
        """Start a run of a compiled pipeline and return its id.

        Raises InputError for arguments that the pipeline does not have or lacks; Kubeflow would accept them silently.
        """
        check_arguments(pipeline, arguments)
        with tempfile.TemporaryDirectory() as folder, _asking(self.account.url), redirect_stdout(sys.stderr):
            path = Path(folder) / "pipeline.yaml"
            path.write_text(pipeline)
            started = self._kfp.create_run_from_pipeline_package(
                str(path),
                dict(arguments),
                run_name=name,
                experiment_name=experiment,
                namespace=self.account.namespace,
                service_account=self.account.service_account,
            )
        run_id: str = started.run_id
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
        check_arguments(pipeline, arguments)
        with tempfile.TemporaryDirectory() as folder, _asking(self.account.url), redirect_stdout(sys.stderr):
            path = Path(folder) / "pipeline.yaml"
            path.write_text(pipeline)
            experiment = self._kfp.create_experiment(name, namespace=self.account.namespace)
            made = self._kfp.create_recurring_run(
                experiment.experiment_id,
                name,
                description=f"{OURS}{words}",
                cron_expression=cron,
                max_concurrency=1,
                no_catchup=True,
                params=dict(arguments),
                pipeline_package_path=str(path),
                service_account=self.account.service_account,
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
        raise kind(f"Kubeflow at {url}: HTTP {error.status}: {detail}") from None
    except (urllib3.exceptions.HTTPError, OSError, TimeoutError) as error:
        text = " ".join(str(error).split())[:300]
        raise KubeflowUnavailable(f"Kubeflow at {url} does not answer: {text}") from None
