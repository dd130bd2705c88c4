"""posttrain approve: record a person's decision on a stage, for every engine."""

from __future__ import annotations

import argparse
import shlex

from pipelines.cli.output import print_text
from pipelines.cli.stores import store_of
from pipelines.runs.find import find_run


def approve(arguments: argparse.Namespace) -> int:
    """Record a person's decision on a stage; the run continues when it is run again."""
    from pipelines.engines.decisions import decide_stage

    store, approved = store_of(arguments), not arguments.reject
    record, where = decide_stage(store, find_run(store, arguments.run), arguments.stage, approved=approved)
    print_text(f"{arguments.stage} of run {record.run_id} is {'approved' if approved else 'rejected'}")
    if where:
        print(f"the run continues {where}")
    if where is None and record.status == "waiting":
        option = f" --store {shlex.quote(arguments.store)}" if arguments.store else ""
        command = f"{record.entry.get('command') or 'the same posttrain run command'}{option}"
        print_text(f"start over with: {command} --new" if arguments.reject else f"continue with: {command}")
    return 0
