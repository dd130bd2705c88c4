"""The tracking server as the cluster's manifest runs it: its image, command and variables, with a real database."""

from __future__ import annotations

import json
import subprocess
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.containers.conftest import BUCKET, IMAGE, Network, podman
from tests.support.mlflow_manifest import ACCOUNTS, SERVER, Container, container, pod, secrets
from tests.support.postgres_server import serving_postgres

pytestmark = [pytest.mark.containers, pytest.mark.slow]
PASSWORD = "mlflow-stage/MLFLOW_TRACKING_PASSWORD"
START_SECONDS = 180
CLIENT = """
import json, mlflow, sys
from mlflow.exceptions import MlflowException
try: experiment = mlflow.create_experiment("from-a-stage")
except MlflowException as error: sys.exit(print(json.dumps({"refused": error.get_http_status_code()})))
with mlflow.start_run(experiment_id=experiment) as run:
    mlflow.log_metric("pass_rate", 0.5, step=3)
    mlflow.log_text("what was made", "note.txt")
found = mlflow.get_run(run.info.run_id)
note = mlflow.artifacts.load_text(f"{found.info.artifact_uri}/note.txt")
mlflow.set_tracking_uri("http://elsewhere:5000")
try: refused = not mlflow.search_experiments()
except MlflowException as error: refused = "403" in str(error)
print(json.dumps({"metrics": found.data.metrics, "note": note, "other_names_are_refused": refused}))
"""


@dataclass(frozen=True)
class Server:
    """The tracking server in the network."""

    address: str
    user: str
    password: str


@pytest.fixture
def mlflow(network: Network, bucket: dict[str, str]) -> Iterator[Server]:
    """Run the manifest's containers one after the other, closed in as there; yield where the second answers."""
    password, settings = uuid.uuid4().hex, f"settings-{uuid.uuid4().hex[:8]}"
    with serving_postgres(network.host, user="mlflow", password=password) as port:
        database = f"postgresql+psycopg2://mlflow:{password}@{network.host}:{port}/mlflow"
        given = secrets(database, f"s3://{BUCKET}/mlflow")
        # as an emptyDir with fsGroup: the pod's group may write
        podman("volume", "create", "--opt", "type=tmpfs", "--opt", "device=tmpfs", "--opt", "o=mode=2777", settings)
        name = None
        try:
            keeper = podman(
                "run", "--detach", "--volume", f"{settings}:/run/mlflow", "--entrypoint", "sleep", IMAGE, "1000"
            )
            podman(*_closed_in(container(ACCOUNTS, given), network, {}, settings, "--rm"))
            variables = {name: value for name, value in bucket.items() if name.startswith("AWS_")}
            name = podman(*_closed_in(container(SERVER, given), network, variables, settings, "--detach")).strip()
            (told,) = json.loads(podman("inspect", name))
            address = _ready(name, told["NetworkSettings"]["Networks"][network.name]["IPAddress"])
            yield Server(address, given["mlflow-stage/MLFLOW_TRACKING_USERNAME"], given[PASSWORD])
        finally:
            podman("rm", "--force", "--time", "0", *filter(None, (name, keeper.strip())))
            podman("volume", "rm", "--force", settings)


def test_a_stage_reaches_it_by_its_name_and_finds_what_it_logged(
    mlflow: Server, network: Network, bucket: dict[str, str]
) -> None:
    right, wrong = (_client(mlflow, network, password) for password in (mlflow.password, "another-password"))
    assert right == {"metrics": {"pass_rate": 0.5}, "note": "what was made", "other_names_are_refused": True}
    assert wrong == {"refused": 401}


def _client(server: Server, network: Network, password: str) -> dict[str, Any]:
    """Log and read as a stage does; return what was found."""
    hosts = ("--add-host", f"mlflow:{server.address}", "--add-host", f"elsewhere:{server.address}")
    variables = {
        "MLFLOW_TRACKING_URI": "http://mlflow:5000",
        "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
        "MLFLOW_TRACKING_USERNAME": server.user,
        "MLFLOW_TRACKING_PASSWORD": password,
    }
    given = (part for item in variables.items() for part in ("--env", "=".join(item)))
    program = ("--entrypoint", "python", IMAGE, "-c", CLIENT)
    return json.loads(podman("run", "--rm", "--network", network.name, *hosts, *given, *program).splitlines()[-1])


def _closed_in(found: Container, network: Network, more: dict[str, str], settings: str, *how: str) -> list[str]:
    """Return the arguments that run a container of the manifest as a cluster would."""
    memory = found.spec["resources"]["limits"]["memory"].lower().removesuffix("i")
    context = pod()["securityContext"]
    return [
        *("run", *how, "--read-only", "--cap-drop", "all", "--security-opt", "no-new-privileges"),
        *("--network", network.name, "--memory", memory, "--memory-swap", memory, "--volume", "/tmp"),
        *("--volume", f"{settings}:/run/mlflow", "--user", f"{context['runAsUser']}:{context['runAsGroup']}"),
        *(part for item in {**found.variables, **more}.items() for part in ("--env", "=".join(item))),
        *("--entrypoint", found.command[0], IMAGE, *found.command[1:]),
    ]


def _ready(container: str, address: str) -> str:
    """Wait until the server answers as the manifest's probe asks it."""
    probe = f"import urllib.request as u; u.urlopen('http://{address}:5000/health', timeout=2)"
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            podman("exec", container, "python", "-c", probe)
            return address
        except AssertionError:
            (state,) = json.loads(podman("inspect", container))
            running = state["State"]["Running"]
            assert running and time.monotonic() < deadline, _log(container)
            time.sleep(2)


def _log(container: str) -> str:
    done = subprocess.run(["podman", "logs", container], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.stdout
