"""Watcher: delivers the lineage of every run of a store as it is written, for engines without their own process.

python -m components.runtime.lineage.delivery.watch [--store URI] [--alive FILE]      POSTTRAIN_STORE unless given

In a cluster it is a Deployment (infra/kubernetes/base/lineage.yaml), whose probe looks when FILE was touched.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

from components.contract.errors import InputError, PosttrainError, StoreUnavailable
from components.contract.terminal import print_error, visible
from components.runtime.lineage.delivery.deliver import deliver
from components.runtime.lineage.delivery.target import tracking_uri
from components.runtime.lineage.spool import spooled_runs
from components.runtime.store import open_store

if TYPE_CHECKING:
    from components.runtime.store import Store

POLL_SECONDS = 2.0
BUCKET_POLL_SECONDS = 10.0
"""A listing of a bucket costs money."""


class Watcher:
    """Remembers which runs are fully delivered, so that a poll with many old runs costs one listing."""

    def __init__(self, store: Store, uri: str, alive: Path | None = None) -> None:
        """`alive` is touched after each run and each look."""
        self._store, self._uri, self._alive = store, uri, alive
        self._settled: dict[str, int] = {}

    def look(self) -> None:
        """Deliver new events once; the next poll tries an unreachable server again."""
        for run_id, keys in spooled_runs(self._store).items():
            if self._settled.get(run_id) == len(keys):
                continue
            result = deliver(self._store, run_id, self._uri)
            if not result.pending:
                self._settled[run_id] = len(keys)
            self.touch()

    def touch(self) -> None:
        """Show that this process goes on."""
        if self._alive is not None:
            self._alive.touch()


def main() -> int:
    """Watch one store until SIGTERM."""
    parser = argparse.ArgumentParser(description="Deliver the lineage of all runs of a store as it comes.")
    parser.add_argument("--store", default=os.environ.get("POSTTRAIN_STORE"), help="store URI")
    parser.add_argument("--alive", type=Path, help="file that is touched while this process goes on")
    arguments = parser.parse_args()
    stop = Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    try:
        if not arguments.store:
            raise InputError("name a store: --store or POSTTRAIN_STORE")
        store = open_store(arguments.store)
        watcher = Watcher(store, tracking_uri(store), arguments.alive)
        while not stop.is_set():
            try:
                watcher.look()
            except StoreUnavailable as error:
                print(f"{time.strftime('%H:%M:%S')} {visible(str(error))}", file=sys.stderr, flush=True)
            watcher.touch()
            stop.wait(BUCKET_POLL_SECONDS if "://" in store.uri else POLL_SECONDS)
    except PosttrainError as error:
        print_error(error)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
