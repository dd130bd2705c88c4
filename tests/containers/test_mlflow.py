"""The tracking server as the cluster's manifest runs it: its image, command and variables, with a real database."""

from __future__ import annotations

import json
import subprocess
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.containers.conftest import BUCKET, IMAGE, Network, podman
from tests.support.postgres_server import serving_postgres

pytestmark = [pytest.mark.containers, pytest.mark.slow]
BASE = Path(__file__).parents[2] / "infra" / "kubernetes" / "base"
START_SECONDS = 180
CLIENT = """
import json, mlflow
from mlflow.exceptions import MlflowException
experiment = mlflow.create_experiment("from-a-stage")
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


@pytest.fixture
def mlflow(network: Network, bucket: dict[str, str]) -> Iterator[str]:
    """Run the manifest's container, closed in as there; yield its address in the network."""
    pod = _deployment()["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    password = uuid.uuid4().hex
    with serving_postgres(network.host, user="mlflow", password=password) as port:
        given = {
            "mlflow-database/uri": f"postgresql+psycopg2://mlflow:{password}@{network.host}:{port}/mlflow",
            "posttrain/mlflow-artifacts": f"s3://{BUCKET}/mlflow",
        }
        variables = {item["name"]: item.get("value") or given[_source(item)] for item in container["env"]}
        variables |= {name: value for name, value in bucket.items() if name.startswith("AWS_")}
        command = [variables["ARTIFACTS"] if part == "$(ARTIFACTS)" else part for part in container["command"]]
        memory = container["resources"]["limits"]["memory"].lower().removesuffix("i")
        name = podman(
            *("run", "--detach", "--read-only", "--cap-drop", "all", "--security-opt", "no-new-privileges"),
            *("--network", network.name, "--memory", memory, "--memory-swap", memory, "--volume", "/tmp"),
            *("--user", f"{pod['securityContext']['runAsUser']}:{pod['securityContext']['runAsGroup']}"),
            *(part for item in variables.items() for part in ("--env", "=".join(item))),
            *("--entrypoint", command[0], IMAGE, *command[1:]),
        ).strip()
        try:
            (told,) = json.loads(podman("inspect", name))
            yield _ready(name, told["NetworkSettings"]["Networks"][network.name]["IPAddress"])
        finally:
            podman("rm", "--force", "--time", "0", name)


def test_a_stage_reaches_it_by_its_name_and_finds_what_it_logged(
    mlflow: str, network: Network, bucket: dict[str, str]
) -> None:
    printed = podman(
        *(
            "run",
            "--rm",
            "--network",
            network.name,
            "--add-host",
            f"mlflow:{mlflow}",
            "--add-host",
            f"elsewhere:{mlflow}",
        ),
        *("--env", "MLFLOW_TRACKING_URI=http://mlflow:5000", "--env", "MLFLOW_HTTP_REQUEST_MAX_RETRIES=1"),
        *("--entrypoint", "python", IMAGE, "-c", CLIENT),
    )
    told = json.loads(printed.splitlines()[-1])
    assert told == {"metrics": {"pass_rate": 0.5}, "note": "what was made", "other_names_are_refused": True}


def _deployment() -> dict[str, Any]:
    manifests = yaml.safe_load_all((BASE / "mlflow.yaml").read_text())
    return next(one for one in manifests if one["kind"] == "Deployment")


def _source(item: dict[str, Any]) -> str:
    """Return where a variable of the manifest comes from: the name and the key of a Secret or a ConfigMap."""
    (source,) = item["valueFrom"].values()
    return f"{source['name']}/{source['key']}"


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
