"""The last task of a pipeline: the run's end in the ledger, its report, its lineage. It runs however the others ended.

python -m pipelines.engines.kubeflow.ending --store URI --kubeflow-run ID --executor-input JSON --report F --links F
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from components.contract.errors import PosttrainError
from components.contract.terminal import print_error, visible
from components.runtime.job.process import FAILED
from components.runtime.job.progress import text_lines
from components.runtime.ledger.ledger import RunRecord, load_run
from components.runtime.store import Store, open_store
from pipelines.engines.kubeflow.executor import ExecutorInput
from pipelines.engines.kubeflow.names import run_key
from pipelines.engines.kubeflow.run_pages import PAGES, show_refusal, show_run
from pipelines.engines.shared.ending import end_run, status_of
from pipelines.engines.shared.stage_job import record_death
from pipelines.runs.runs import RunWriter

STATUS = "final_status"
"""Input with the outcome of the other tasks."""


def end(store: Store, kubeflow_run: str, final: Mapping[str, Any], *, report: Path, links: Path) -> None:
    """End the run behind Kubeflow's run, if it had begun, and write the pages that Kubeflow shows of it."""
    known = store.get(run_key(kubeflow_run)) or {}
    if "run_id" not in known:
        why = str(known.get("refused", "its first task failed"))
        print(visible(f"no run had begun: {why}"))
        show_refusal(why, report=report, links=links)
        return
    record = load_run(store, known["run_id"])
    _record_deaths(store, record, str(final.get("state")), str((final.get("error") or {}).get("message") or ""))
    page = end_run(store, record.run_id, started=_started(record))
    show_run(store, record.run_id, page, report=report, links=links)


def close(store: Store, run_id: str, state: str, message: str) -> str:
    """End a run whose last task did not: Kubeflow was told to stop it, or lost it. Return its status.

    The run's follower calls this, possibly without MLflow's library: `posttrain lineage sync` delivers.
    """
    record = load_run(store, run_id)
    _record_deaths(store, record, state, message)
    status = "stopped" if state == "CANCELED" else status_of(load_run(store, run_id), store)
    RunWriter(store, run_id, started=_started(record)).end(status)
    return status


def _started(record: RunRecord) -> float:
    return datetime.fromisoformat(record.entry["started"]).timestamp()


def _record_deaths(store: Store, record: RunRecord, state: str, message: str) -> None:
    """Record, for a failed run, the failure of stages that were next and have neither ended nor said why.

    Kubeflow's own driver or launcher failed, their pods were killed as a whole, or they never started. `message` is
    what Kubeflow says of it.
    """
    if state not in ("FAILED", "ERROR") or status_of(record, store) != "stopped":
        return
    for stage in record.entry["stages"]:
        name = stage["name"]
        if name not in record.stages and all(before in record.stages for before in stage["after"]):
            record_death(store, record.run_id, name, _in_words(message), text_lines())


def _in_words(message: str) -> str:
    """Return why a stage's task ended, as far as Kubeflow tells; memory only where a pod was killed for it."""
    if re.search(r"OOMKilled|exit code 137\b", message):
        return f"its pod was killed, out of memory by the signs: {message}"
    reason = message or "Kubeflow gives no reason; its page of the run has the log"
    return f"its task failed in Kubeflow before the stage could say why (its pod, or Kubeflow's own driver): {reason}"


def main() -> int:
    """End one run; the exit code is 1 if its report could not be made."""
    parser = argparse.ArgumentParser(description="End a run.")
    parser.add_argument("--store", required=True)
    parser.add_argument("--kubeflow-run", required=True)
    parser.add_argument("--executor-input", default="{}", help="what Kubeflow reports about the task, JSON")
    parser.add_argument("--report", required=True, type=Path, help="file for the report, HTML")
    parser.add_argument("--links", required=True, type=Path, help="file for links to MLflow, Markdown")
    arguments = parser.parse_args()
    try:
        told = ExecutorInput.parse(arguments.executor_input)
        final = told.parameters.get(STATUS) or {}
        pages = {"report": arguments.report, "links": arguments.links}
        end(open_store(arguments.store), arguments.kubeflow_run, final, **pages)
        told.reply({name: {} for name in PAGES})
    except PosttrainError as error:
        print_error(error)
        return FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main())
