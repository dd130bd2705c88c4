"""posttrain ui: MLflow on the store's lineage, reachable from this machine only."""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request

from components.contract.errors import PosttrainError
from components.runtime.lineage.delivery.runs_page import PREFIX, QUERY, VIEW
from components.runtime.lineage.delivery.target import DEFAULTS, artifact_root, tracking_uri, without_credentials
from components.runtime.store.access import access_below, top_of
from pipelines.cli.stopping import terminate_like_interrupt
from pipelines.cli.stores import store_of
from pipelines.runs.delivering import start_process

HOST = "127.0.0.1"
BACKEND = "MLFLOW_BACKEND_STORE_URI"
START_SECONDS = 300.0
POLL_SECONDS = 0.2


def ui(arguments: argparse.Namespace) -> int:
    """Run the MLflow server in the foreground, print its address once it answers, and exit with it."""
    terminate_like_interrupt()
    store = store_of(arguments)
    uri = tracking_uri(store)
    if uri.startswith(("http://", "https://")):
        print(f"MLflow runs at {without_credentials(uri)}")
        return 0
    port = arguments.port or _free_port()
    command, environment = server_process(uri, port)
    umask = access_below(top_of(store.uri)).umask
    server = subprocess.Popen(command, env={**os.environ, **environment}, stdout=subprocess.DEVNULL, umask=umask)
    try:
        print("starting MLflow", file=sys.stderr, flush=True)
        _wait(server, port)
        start_process(store, "--pending")  # what runs left in which nothing ran
        print(f"MLflow: http://{HOST}:{port}{newest_experiment(port)}  (Ctrl-C ends it)", flush=True)
        return server.wait()
    finally:
        server.terminate()
        server.wait()


def server_process(uri: str, port: int) -> tuple[list[str], dict[str, str]]:
    """Return the MLflow server's command and the variables that it needs.

    Every user of the machine can read a command line, and a database address may contain its password.
    """
    command = [sys.executable, "-m", "mlflow", "server", "--host", HOST, "--port", str(port), "--workers", "1"]
    if root := artifact_root(uri):
        command += ["--default-artifact-root", root]
    return command, {**DEFAULTS, BACKEND: uri}


def newest_experiment(port: int) -> str:
    """Return the MLflow page of the most recently run recipe; empty if there is none yet.

    MLflow opens a page for chat applications unless the address selects model training.
    """
    body = json.dumps({"max_results": 1, "order_by": ["last_update_time DESC"]}).encode()
    address = f"http://{HOST}:{port}/api/2.0/mlflow/experiments/search"
    request = urllib.request.Request(address, body, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=START_SECONDS) as answer:
            found = json.load(answer).get("experiments", [])
    except (OSError, ValueError):  # the page is optional
        return ""
    if not found:
        return ""
    tags = {tag["key"] for tag in found[0].get("tags", ())}
    query = QUERY if f"{PREFIX}{VIEW}" in tags else "workflowType=machine_learning"
    return f"/#/experiments/{found[0]['experiment_id']}/runs?{query}"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _wait(server: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise PosttrainError(
                f"MLflow's server ended at once with exit code {server.returncode}; its message is above"
            )
        try:
            with urllib.request.urlopen(f"http://{HOST}:{port}/health", timeout=1):
                return
        except OSError:
            time.sleep(POLL_SECONDS)
    raise PosttrainError(f"MLflow's server did not answer within {START_SECONDS:.0f} s")
