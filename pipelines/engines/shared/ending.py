"""The end of a run on another orchestrator: its record, its report, its lineage.

Its process runs in the components' environment; `run_result` is for the follower of the run.

python -m pipelines.engines.shared.ending --store URI --run RUN
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from components.contract.errors import PosttrainError
from components.contract.terminal import print_error, visible
from components.runtime.checkpoints.moves import asked
from components.runtime.ledger.approvals import decision_on
from components.runtime.ledger.ledger import RunRecord, load_run
from components.runtime.lineage.delivery.deliver import deliver, delivery_state
from components.runtime.lineage.delivery.target import VARIABLE, database_path, tracking_uri, without_credentials
from components.runtime.store import Store, open_store
from components.runtime.system.parent import die_with_parent
from pipelines.runs.delivering import LINEAGE
from pipelines.runs.runs import EXIT_CODES, RunResult, RunWriter

IN_CLUSTER = "KUBERNETES_SERVICE_HOST"
"""Variable that Kubernetes gives to every pod."""
DELIVERY_SECONDS = 60.0
"""Time for another process that delivers this run, such as a follower, to finish."""


def status_of(run: RunRecord, store: Store) -> str:
    """Return the status of a run whose tasks have all ended: succeeded, failed, or stopped by a person."""
    missing = [name for name in run.stage_names if name not in run.stages]
    if not missing:
        return "succeeded"
    if asked(store, run.run_id):  # it goes on elsewhere
        return "stopped"
    decisions = [decision_on(store.get, run.run_id, name) for name in missing]
    rejected = any(decision is not None and not decision["approved"] for decision in decisions)
    return "failed" if run.failures or run.damaged or rejected else "stopped"


def end_run(store: Store, run_id: str, *, started: float | None = None) -> Path:
    """Record how a run ended, make its report and deliver its lineage to MLflow; return the report's page.

    `started` is in seconds since the epoch.
    """
    status = status_of(load_run(store, run_id), store)
    page = RunWriter(store, run_id, started=started).end(status)
    print(f"run {run_id}: {status}")
    print(f"report: {page}")
    if os.environ.get(LINEAGE, "live") != "later":
        deliver_lineage(store, run_id)
    return page


def run_result(store: Store, run: str, status: str) -> RunResult:
    """Return how a run ended, with its failures, its report and its pending lineage."""
    from pipelines.report.page import build_report

    record = load_run(store, run)
    failures = {name: failure["error"] for name, failure in record.failures.items()}
    try:
        page, trouble = store.fetch(build_report(store, run).digest) / "index.html", None
    except PosttrainError as error:  # the ending reports it, beside everything else
        page, trouble = None, str(error)
    delivery = delivery_state(store, run, tracking_uri(store))
    code = EXIT_CODES[status] or int(page is None)
    return RunResult(run, status, code, failures, page, delivery.problem, delivery.pending, trouble)


def main() -> int:
    """End one run; the exit code is 1 if its report could not be made."""
    parser = argparse.ArgumentParser(description="End a run in the ledger.")
    parser.add_argument("--store", required=True)
    parser.add_argument("--run", required=True)
    parser.add_argument("--started", type=float, help="when the run began, in seconds since the epoch")
    parser.add_argument("--parent", type=int, help="end when this process, the parent, does")
    arguments = parser.parse_args()
    if arguments.parent is not None:
        die_with_parent()
    try:
        end_run(open_store(arguments.store), arguments.run, started=arguments.started)
    except PosttrainError as error:
        print_error(error)
        return 1
    return 0


def deliver_lineage(store: Store, run_id: str) -> None:
    """Deliver a run's lineage to MLflow, and say how much of it is there."""
    uri = tracking_uri(store)
    if IN_CLUSTER in os.environ and database_path(uri) is not None:
        # a file in the pod goes away with it, and the run would count as delivered
        print(f"MLflow: {VARIABLE} is not set in this pod: lineage waits in the store for one that knows the server")
        return
    result = deliver(store, run_id, uri, wait_seconds=DELIVERY_SECONDS)
    rest = f"{result.pending} wait ({result.problem})" if result.pending else "all is there"
    print(visible(f"MLflow: {without_credentials(uri)}: {result.delivered} events delivered, {rest}"))


if __name__ == "__main__":
    sys.exit(main())
