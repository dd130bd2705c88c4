"""posttrain approve: a person's decision on a stage, for every engine."""

from __future__ import annotations

import argparse
import shlex
from typing import TYPE_CHECKING

from components.contract.errors import InputError, did_you_mean
from pipelines.cli.stores import run_of, store_of

if TYPE_CHECKING:
    from components.runtime.store import Store


def approve(arguments: argparse.Namespace) -> int:
    """Record a person's decision on a stage; the run goes on when it is run again."""
    from components.runtime.ledger.ledger import load_run
    from pipelines.engines.shared.approvals import record_decision

    store = store_of(arguments)
    record = load_run(store, run_of(store, arguments.run))
    stages = {stage["name"]: stage for stage in record.entry.get("stages", ())}
    if arguments.stage not in stages:
        raise InputError(
            f"unknown stage {arguments.stage!r} of run {record.run_id}{did_you_mean(arguments.stage, stages)}"
        )
    if not stages[arguments.stage].get("needs_approval", True):
        raise InputError(f"stage {arguments.stage!r} of run {record.run_id} waits for nobody: it has no 'approve'")
    word = "rejected" if arguments.reject else "approved"
    if not record_decision(store, record.run_id, arguments.stage, approved=not arguments.reject):
        raise InputError(f"{arguments.stage} of run {record.run_id} was decided before; that decision stands")
    print(f"{arguments.stage} of run {record.run_id} is {word}")
    if where := record.entry.get("airflow"):
        _tell_airflow(store, where, arguments)
        return 0
    if record.entry.get("kubeflow"):
        print("the run goes on in Kubeflow")
        return 0
    if record.status == "waiting":
        option = f" --store {shlex.quote(arguments.store)}" if arguments.store else ""
        command = f"{record.entry.get('command') or 'the same posttrain run command'}{option}"
        print(f"start anew with: {command} --new" if arguments.reject else f"go on with: {command}")
    return 0


def _tell_airflow(store: Store, where: dict[str, str], arguments: argparse.Namespace) -> None:
    """Answer the question that waits in Airflow, too; the run goes on there by itself."""
    from pipelines.engines.airflow.client import Account, Client, NotFound
    from pipelines.engines.airflow.deployment.deployment import Deployment
    from pipelines.engines.airflow.engine import answer_approval, run_path

    client = Client(Account.read(Deployment.beside(store)))
    path = run_path(where["dag_id"], where["run_id"])
    try:
        answer_approval(client, path, arguments.stage, approved=not arguments.reject)
    except NotFound:  # it has not asked yet: its task looks into the store first
        return
    print(f"the run goes on at {client.account.url}")
