"""posttrain ui: MLflow's server comes up, and no process of it shows where its database is and how to enter it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from components.runtime.lineage.delivery.target import without_credentials
from pipelines.cli.ui import BACKEND, server_process


def test_a_password_is_no_part_of_a_command_line() -> None:
    uri = "postgresql://posttrain:hunter2@db/mlflow"
    command, environment = server_process(uri, 5000)
    assert not any("hunter2" in part for part in command)
    assert environment[BACKEND] == uri


@pytest.mark.parametrize(
    ("uri", "public"),
    [
        ("postgresql://u:hunter2@db:5432/m", "postgresql://db:5432/m"),
        ("postgresql://db/m?user=u&password=hunter2", "postgresql://db/m?user=u"),
        ("mysql+pymysql://db/m?passwd=hunter2&charset=utf8", "mysql+pymysql://db/m?charset=utf8"),
        ("https://u:hunter2@host/mlflow", "https://host/mlflow"),
        ("sqlite:////tmp/mlflow.db", "sqlite:////tmp/mlflow.db"),
        ("sqlite:///mlflow.db", "sqlite:///mlflow.db"),
    ],
)
def test_addresses_are_shown_without_secrets(uri: str, public: str) -> None:
    assert without_credentials(uri) == public


@pytest.mark.slow
def test_the_running_server_does_not_show_its_database(tmp_path: Path) -> None:
    marked = f"sqlite:///{tmp_path}/hunter2.db"
    environment = {**os.environ, "MLFLOW_TRACKING_URI": marked, "POSTTRAIN_STORE": str(tmp_path / "store")}
    command = [sys.executable, "-m", "pipelines.cli", "ui"]
    server = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        assert "http://127.0.0.1:" in server.stdout.readline()
        shown = subprocess.run(["ps", "-ww", "-eo", "args"], capture_output=True, text=True, check=True).stdout
        assert "mlflow server" in shown and "hunter2.db" not in shown
        assert (tmp_path / "hunter2.db").is_file()
    finally:
        server.terminate()
        server.wait(timeout=60)
