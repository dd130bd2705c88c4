"""Deletes the leases of drivers that were lost for good, and with them whatever these had running.

python -m pipelines.engines.driver.reap --namespace NAMESPACE

infra/kubernetes runs it every few minutes. A lease that was given back is kept as long as a failed work is.
"""

from __future__ import annotations

import argparse
import sys
import time

from components.contract.errors import PosttrainError
from components.contract.terminal import print_error
from pipelines.engines.driver.api import LEASES, Cluster, Conflict
from pipelines.engines.driver.lease import DURATION_SECONDS, ROLE, silent_seconds
from pipelines.engines.driver.manifests.batch import KEPT_SECONDS

ORPHAN_SECONDS = 10 * DURATION_SECONDS
"""How long nobody has renewed the lease of a driver that will not come back; its retry takes over long before."""


def reap(cluster: Cluster, namespace: str, now: float) -> list[str]:
    """Delete what is overdue; return the names of the leases."""
    reaped = []
    for lease in cluster.list(LEASES, namespace, labelSelector=f"{ROLE}=driver"):
        held = bool(lease["spec"].get("holderIdentity"))
        if silent_seconds(lease, now) <= (ORPHAN_SECONDS if held else KEPT_SECONDS):
            continue
        try:
            cluster.delete(LEASES, lease, unchanged=True)
        except Conflict:  # its driver has renewed it in this moment
            continue
        reaped.append(lease["metadata"]["name"])
    return reaped


def main(cluster: Cluster | None = None) -> int:
    """Reap once."""
    parser = argparse.ArgumentParser(description="Delete what lost drivers left running.")
    parser.add_argument("--namespace", required=True)
    arguments = parser.parse_args()
    try:
        reaped = reap(cluster or Cluster.inside(), arguments.namespace, time.time())
    except PosttrainError as error:
        print_error(error)
        return error.exit_code
    print(f"reaped {len(reaped)}: {', '.join(reaped)}" if reaped else "nothing to reap", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
