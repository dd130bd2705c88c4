"""Commands that start something: a job, MLflow, the guides, Airflow."""

from __future__ import annotations

from typing import Any

from pipelines.cli.parser.options import command, store
from pipelines.cli.parser.values import port


def add_service_commands(commands: Any) -> None:
    """Add the commands."""
    _airflow_commands(commands)
    stage = command(commands, "stage", "run one job from its description file, as containers do", "stage:stage")
    stage.add_argument("file", metavar="JOB.json", help="job description, or - for standard input")
    ui = command(commands, "ui", "open MLflow on the store's lineage, on this machine only", "ui:ui")
    store(ui)
    ui.add_argument("--port", type=port, metavar="N", help="port (default: a free one)")
    docs = command(commands, "docs", "read the guides, on this machine only, with search", "docs:docs")
    docs.add_argument("--port", type=port, metavar="N", help="port (default: a free one)")
    docs.add_argument("--build", metavar="DIR", help="write the site's files into a new folder, and serve nothing")


def _airflow_commands(commands: Any) -> None:
    airflow = commands.add_parser("airflow", help="a local Airflow, and pools in any Airflow", allow_abbrev=False)
    actions = airflow.add_subparsers(dest="action", metavar="ACTION", required=True)
    up = command(actions, "up", "start Airflow on this machine and keep it until Ctrl-C", "airflow:up")
    store(up)
    up.add_argument("--port", type=port, metavar="N", help="port (default: 8080, or a free one)")
    init = command(actions, "init", "create the pools of pools.yaml that Airflow lacks", "airflow:init")
    store(init)
