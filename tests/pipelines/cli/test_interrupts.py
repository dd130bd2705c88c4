"""Ctrl-C more than once: the run is still named, nothing runs on, and MLflow shows no run that goes on."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from components.runtime.lineage.delivery.target import database_path, tracking_uri
from components.runtime.store import open_store
from tests.support.toy_command import PLUGIN, ROOT

RECIPE = """\
name: endless
defaults: {backoff: 0}
stages:
  base: {uses: toy-train}
  long: {uses: toy-train, in: {model: base.model}, with: {spin: true}}
"""


def test_several_interrupts_leave_a_run_that_can_go_on(tmp_path: Path) -> None:
    (tmp_path / "endless.yaml").write_text(RECIPE)
    store = open_store(str(tmp_path / "store"))
    path = os.pathsep.join([str(PLUGIN), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "POSTTRAIN_STORE": store.uri, "PYTHONPATH": path, "POSTTRAIN_LINEAGE": "live"}
    environment.pop("MLFLOW_TRACKING_URI", None)
    process = subprocess.Popen(
        [sys.executable, "-m", "pipelines.cli", "run", str(tmp_path / "endless.yaml")],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stderr is not None
    begun = next(line for line in process.stdout if line.split()[:2] == ["long", "running"])
    process.send_signal(signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.1)  # the second comes while the first one is answered
    lines = [begun]
    process.send_signal(signal.SIGINT)
    for line in process.stdout:
        lines.append(line)
        if line.startswith("run "):  # and another one while the end is printed
            process.send_signal(signal.SIGTERM)
    said, code = "".join(lines), process.wait(120)
    assert code == 130, said
    run_id = next(key.split("/")[1] for key in store.keys("ledger/"))
    assert f"run     {run_id}: stopped" in said
    assert lines[-1].startswith("next    run the same command to continue")
    assert "already stopping" in process.stderr.read()
    end = store.get(f"ledger/{run_id}/end.json")
    assert end is not None and end["status"] == "stopped"
    alive = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert not [line for line in alive.splitlines() if store.uri in line and "deliver" not in line]
    database = database_path(tracking_uri(store))
    assert database is not None
    with sqlite3.connect(database) as rows:
        statuses = {status for (status,) in rows.execute("select status from runs")}
    assert statuses and "RUNNING" not in statuses
