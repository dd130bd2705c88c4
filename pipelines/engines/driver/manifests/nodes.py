"""What the nodes of a stage run: torchrun on each, and the first pod as the place where they meet.

The rendezvous is static: the place of each pod is its index, and the first pod's name is known before it has an
address. Nodes that arrive hours apart wait for one another; nothing is guessed from names.
"""

from __future__ import annotations

from components.contract.job import Job
from pipelines.engines.shared.launcher import LAUNCHER, launcher_arguments
from pipelines.engines.shared.pod import SCHEDULE_SECONDS

PORT = 29_500
NODES = "node"
"""Name of the one group of pods; theirs are <work>-node-0-<number of the node>."""


def torchrun(job: Job, name: str) -> list[str]:
    """Return every node's command: its training processes, with the rendezvous at the first node."""
    return [
        "torchrun",
        f"--nnodes={job.resources.nodes}",
        f"--nproc-per-node={job.resources.ranks_per_node}",
        "--node-rank=$(JOB_COMPLETION_INDEX)",
        f"--master-addr={name}-{NODES}-0-0.{name}",
        f"--master-port={PORT}",
        f"--rdzv-id={name}",
        f"--rdzv-conf=timeout={SCHEDULE_SECONDS}",
        "-m",
        LAUNCHER,
    ]


def launcher(job: Job) -> list[str]:
    """Return what the launcher is told on every rank; torchrun would take --run for an option of its own."""
    return launcher_arguments(job.store, job.run_id, job.stage, "--alone", run="--run-id")
