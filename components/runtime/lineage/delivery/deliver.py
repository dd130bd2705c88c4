"""Deliverer: writes spooled lineage events to MLflow, exactly once.

    python -m components.runtime.lineage.delivery.deliver --store URI         follows runs of this machine (follow.py)
    python -m components.runtime.lineage.delivery.deliver --store URI --pending    delivers what waits, and ends

Every write to MLflow is idempotent (run_writer.py), one deliverer at a time works on a run (a lock of the store), and a
cursor in the store skips what is delivered. If the tracking server is unreachable, events stay in the spool for later.
MLflow is imported only when there is something to deliver and a server to receive it.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from components.runtime.lineage.delivery.cursor import Cursor
from components.runtime.lineage.delivery.delivery import Delivered, Delivery
from components.runtime.lineage.delivery.follow import follow_runs
from components.runtime.lineage.delivery.order import is_closed
from components.runtime.lineage.delivery.target import tracking_uri, unreachable
from components.runtime.lineage.spool import spooled_keys, spooled_runs
from components.runtime.store import StoreLocked, open_store
from components.runtime.store.access import top_of, writing_below

if TYPE_CHECKING:
    from components.runtime.store import Store

LOCK_WAIT_SECONDS = 20.0
"""How long `sync` waits for the follower of an ended run: it is about to end, too."""


def deliver(store: Store, run_id: str, uri: str, *, wait_seconds: float = 0) -> Delivered:
    """Deliver a run's events to the MLflow at `uri`.

    Another process that delivers the same run gets `wait_seconds` to finish. Never raises for an unreachable or
    refusing tracking server: the result reports it.
    """
    try:
        with store.lock(f"lineage-{run_id}", wait_seconds=wait_seconds), writing_below(top_of(store.uri)):
            delivery = Delivery(store, run_id, uri)
            delivery.drain()
            return delivery.result()
    except StoreLocked as error:
        return replace(delivery_state(store, run_id, uri), problem=str(error))


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
    """Deliver; exits 0 unless the store cannot be used."""
    parser = argparse.ArgumentParser(description="Bring the lineage events of runs to MLflow.")
    parser.add_argument("--store", required=True, help="store URI")
    parser.add_argument("--pending", action="store_true", help="deliver what waits of all runs, and end")
    arguments = parser.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C stops the engine; its last events are delivered
    store = open_store(arguments.store)
    uri = tracking_uri(store)
    if arguments.pending:
        print(json.dumps({run_id: asdict(result) for run_id, result in sync(store, uri).items()}))
    else:
        follow_runs(store, uri)
    return 0


if __name__ == "__main__":
    sys.exit(main())
