"""Deliverer: writes spooled lineage events to MLflow, exactly once.

    python -m components.runtime.lineage.delivery.deliver --store URI --run RUN [--follow] [--parent-pid N]

Every write to MLflow is idempotent (run_writer.py), one deliverer at a time works on a run (a lock of the store), and a
cursor in the store skips what is delivered. If the tracking server is unreachable, events stay in the spool for later.
MLflow is imported only when there is something to deliver and a server to receive it.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from components.runtime.lineage.delivery.cursor import Cursor
from components.runtime.lineage.delivery.delivery import POLL_SECONDS, Delivered, Delivery, is_alive
from components.runtime.lineage.delivery.order import is_closed
from components.runtime.lineage.delivery.target import tracking_uri, unreachable
from components.runtime.lineage.spool import spooled_keys, spooled_runs
from components.runtime.store import StoreLocked, open_store
from components.runtime.store.access import top_of, writing_below

if TYPE_CHECKING:
    from components.runtime.store import Store

LOCK_WAIT_SECONDS = 20.0
"""How long `sync` waits for the follower of an ended run: it is about to end, too."""


def deliver(
    store: Store,
    run_id: str,
    uri: str,
    *,
    follow: bool = False,
    parent_pid: int | None = None,
    wait_seconds: float = 0,
) -> Delivered:
    """Deliver a run's events to the MLflow at `uri`; with `follow`, until the run has ended or `parent_pid` is gone.

    Another process that delivers the same run gets `wait_seconds` to finish; a follower takes over whenever it does.
    Never raises for an unreachable or refusing tracking server: the result reports it.
    """
    while True:
        try:
            with store.lock(f"lineage-{run_id}", wait_seconds=wait_seconds), writing_below(top_of(store.uri)):
                delivery = Delivery(store, run_id, uri)
                delivery.follow(parent_pid) if follow else delivery.drain()
                return delivery.result()
        except StoreLocked as error:
            if not follow or (parent_pid and not is_alive(parent_pid)):
                return replace(delivery_state(store, run_id, uri), problem=str(error))
        time.sleep(POLL_SECONDS[1])


def sync(store: Store, uri: str) -> dict[str, Delivered]:
    """Deliver all pending events of all runs; return run -> result for the runs that had any."""
    results: dict[str, Delivered] = {}
    away: str | None = None
    for run_id, keys in spooled_runs(store).items():
        cursor = Cursor.load(store, run_id, uri)
        if pending := cursor.pending(keys):
            away = away or unreachable(uri)
            waiting = Delivered(run_id, pending=len(pending), problem=away)
            patience = LOCK_WAIT_SECONDS if is_closed(keys) else 0
            results[run_id] = waiting if away else deliver(store, run_id, uri, wait_seconds=patience)
    return results


def delivery_state(store: Store, run_id: str, uri: str) -> Delivered:
    """Return a run's pending and refused events and its last problem, without contacting the server."""
    cursor = Cursor.load(store, run_id, uri)
    pending = [key for key in cursor.pending(spooled_keys(store, run_id)) if key not in cursor.refused]
    return Delivered(run_id, pending=len(pending), refused=cursor.refused, problem=cursor.problem)


def main() -> int:
    """Deliver one run's events and print the result as JSON; exits 0 unless the store cannot be used."""
    parser = argparse.ArgumentParser(description="Bring a run's lineage events to MLflow.")
    parser.add_argument("--store", required=True, help="store URI")
    parser.add_argument("--run", required=True, help="run id")
    parser.add_argument("--follow", action="store_true", help="go on until the run has ended")
    parser.add_argument("--parent-pid", type=int, help="with --follow: stop when this process is gone")
    arguments = parser.parse_args()
    if arguments.follow:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C stops the engine; its last events are delivered
    store = open_store(arguments.store)
    result = deliver(
        store, arguments.run, tracking_uri(store), follow=arguments.follow, parent_pid=arguments.parent_pid
    )
    print(json.dumps(asdict(result)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
