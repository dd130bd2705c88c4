"""The trials of a sweep as MLflow shows them: one table of parameters and objective, the best one marked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.contract.errors import CorruptArtifact, InputError
from components.runtime.lineage.delivery.mlflow_calls import log_batches

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

    from components.runtime.lineage.events import StageFinished
    from components.runtime.store import Store

SWEEP, PORT = "sweep", "report"
"""The component that compares trials, and its output with FILE."""
FILE = "trials.json"
TABLE_TAG = {"mlflow.loggedArtifacts": json.dumps([{"path": FILE, "type": "table"}])}


def write_trials(client: MlflowClient, store: Store, run_id: str, event: StageFinished) -> None:
    """Log the trials that a stage of a sweep drew, judged or compared; other stages are left alone.

    A report that is gone or damaged holds nothing else up.
    """
    if event.component != SWEEP or PORT not in event.outputs:
        return
    try:
        table = trial_table(store.fetch(event.outputs[PORT].digest))
    except (CorruptArtifact, InputError):
        return
    client.log_text(run_id, table, FILE)
    log_batches(client, run_id, tags=TABLE_TAG)


def trial_table(folder: Path) -> str:
    """Return the table of a sweep's report as MLflow stores tables."""
    rows: list[dict[str, Any]] = json.loads((folder / FILE).read_text(encoding="utf-8"))["trials"]
    params = list(dict.fromkeys(name for row in rows for name in row["params"]))
    columns = ["trial", *(f"params.{name}" for name in params), "objective", "end", "best"]
    data = [
        [row["number"], *(row["params"].get(name) for name in params), row["value"], row["status"], row["is_best"]]
        for row in rows
    ]
    return json.dumps({"columns": columns, "data": data})
