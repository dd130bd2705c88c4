"""A local Airflow: `make airflow` and `posttrain airflow up`. Imports no Airflow.

Airflow's own `standalone` starts the same services and does no more: one that dies stays dead, SIGTERM or a kill of it
leaves all of them behind, and at Ctrl-C the API may be gone before running tasks have reported that they were stopped.
"""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from components.contract.errors import InputError, PosttrainError
from components.runtime.lineage.delivery.target import tracking_uri
from components.runtime.store import Store
from components.runtime.system.code import ROOT
from pipelines.engines.airflow.catalog import shown_recipes
from pipelines.engines.airflow.client import Account, AirflowUnavailable, Client
from pipelines.engines.airflow.deployment import HOST, Deployment, airflow_python, person
from pipelines.engines.airflow.names import MLFLOW_PORT, dag_id
from pipelines.engines.airflow.pools import create_pools
from pipelines.engines.airflow.standalone import guard
from pipelines.engines.shared.launcher import stage_python
from pipelines.engines.shared.mlflow_page import URL as MLFLOW_URL
from pipelines.recipe.pools import load_pools
from pipelines.runs.delivering import LINEAGE

PORT, MLFLOW = 8080, 5000
"""Airflow's own and MLflow's; another port is used if one is taken."""
HEALTHY_SECONDS = 300.0
POLL_SECONDS = 0.5


def up(store: Store, *, port: int | None = None) -> int:
    """Start Airflow and keep it until Ctrl-C or SIGTERM; the exit code says whether it ended well."""
    deployment = Deployment.beside(store)
    users = deployment.prepare()
    python = airflow_python()
    signal.signal(signal.SIGTERM, _interrupt)
    with _only_one(deployment):
        began = time.monotonic()
        port = port if port is not None else free_port(PORT)
        environment = deployment.environment(store, port)
        environment |= _mlflow(store)
        print(f"starting Airflow in {deployment.folder} (Ctrl-C ends it)", flush=True)
        keeper: subprocess.Popen[bytes] | None = None
        try:
            migrate(python, environment, deployment)
            keeper = _keep(python, environment, deployment)
            account = Account(f"http://{HOST}:{port}", person(), users[person()])
            _wait_healthy(Client(account), keeper, deployment)
            create_pools(Client(account), load_pools())
            deployment.write_address(url=account.url, pid=os.getpid(), store=store.uri)
            _tell(account, deployment, store, time.monotonic() - began, environment.get(MLFLOW_URL))
            keeper.send_signal(guard.LATE)
            return keeper.wait()
        except KeyboardInterrupt:
            print("stopping", flush=True)
            return 0
        finally:
            deployment.address.unlink(missing_ok=True)
            if keeper is not None:
                _end(keeper)


def migrate(python: str, environment: Mapping[str, str], deployment: Deployment) -> None:
    """Migrate the database to this Airflow's schema; a no-op if already done."""
    lock = ROOT / "infra" / "requirements" / "airflow.lock"
    done = deployment.folder / "migrated.lock"
    wanted = lock.read_text() if lock.exists() else ""
    if done.exists() and done.read_text() == wanted and (deployment.folder / "airflow.db").exists():
        return
    log = deployment.logs / "migrate.log"
    with log.open("wb") as stream:
        command = [python, "-m", "airflow", "db", "migrate"]
        code = subprocess.run(command, env=dict(environment), stdout=stream, stderr=subprocess.STDOUT).returncode
    if code:
        raise PosttrainError(f"Airflow's database could not be made (exit code {code}); see {log}")
    done.write_text(wanted)


def free_port(preferred: int) -> int:
    """Return the preferred port if it is free, else one that is."""
    for port in (preferred, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise PosttrainError("no port is free")


def _mlflow(store: Store) -> dict[str, str]:
    """Return variables with MLflow's port and address; none if MLflow has a server, or lineage is left for later."""
    if tracking_uri(store).startswith(("http://", "https://")) or os.environ.get(LINEAGE, "live") == "later":
        return {}
    port = free_port(MLFLOW)
    return {MLFLOW_PORT: str(port), MLFLOW_URL: f"http://{HOST}:{port}"}


def _keep(python: str, environment: Mapping[str, str], deployment: Deployment) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "pipelines.engines.airflow.standalone.guard", "--airflow", python]
    command += ["--stages", stage_python(), "--logs", str(deployment.logs), "--parent", str(os.getpid())]
    return subprocess.Popen(command, cwd=ROOT, env=dict(environment), stdin=subprocess.DEVNULL, start_new_session=True)


def _wait_healthy(client: Client, keeper: subprocess.Popen[bytes], deployment: Deployment) -> None:
    """Wait until every service is healthy and the recipes are parsed."""
    deadline = time.monotonic() + HEALTHY_SECONDS
    missing = "the API"
    while time.monotonic() < deadline:
        if keeper.poll() is not None:
            raise PosttrainError(f"Airflow did not start; see {deployment.logs}")
        try:
            sick = [name for name, status in client.health().items() if status != "healthy"]
            missing = ", ".join(sick)
            if not sick and _knows_recipes(client):
                return
            missing = missing or "the recipes"
        except AirflowUnavailable:
            pass
        time.sleep(POLL_SECONDS)
    raise PosttrainError(
        f"Airflow did not become healthy within {HEALTHY_SECONDS:.0f} s: {missing}; see {deployment.logs}"
    )


def _knows_recipes(client: Client) -> bool:
    """Return whether the recipes were parsed: readable ones are DAGs, the others an import error."""
    wanted = {dag_id(name) for name in shown_recipes()}
    known = {dag["dag_id"] for dag in client.all("dags", "dags", exclude_stale=True)}
    return wanted <= known or (bool(known) and bool(client.all("importErrors", "import_errors")))


def _tell(account: Account, deployment: Deployment, store: Store, seconds: float, mlflow: str | None) -> None:
    print(f"Airflow:   {account.url}  (after {seconds:.0f} s)")
    print(f"log in as  {account.user}; passwords: {deployment.passwords}")
    if mlflow is not None:
        print(f"MLflow:    {mlflow}  (in a moment)")
    print(f"store:     {store.uri}")
    print(f"logs:      {deployment.logs}")
    print("posttrain run RECIPE --engine airflow starts a run from another terminal", flush=True)


def _end(keeper: subprocess.Popen[bytes]) -> None:
    """End the services in order; a second Ctrl-C does not leave them behind."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    keeper.terminate()
    keeper.wait()


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


@contextmanager
def _only_one(deployment: Deployment) -> Iterator[None]:
    """Lock the folder: two Airflows on one database would interfere."""
    path: Path = deployment.folder / "lock"
    with path.open("w") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            own = deployment.read_address() or {}
            raise InputError(
                f"an Airflow runs in {deployment.folder} already: {own.get('url', 'it is starting')}"
            ) from None
        yield
