"""The local engine with a container per job: the image that pods run, equally restricted.

Read-only root, no capabilities, not root, bounded memory and processes; no network at all if the store is a folder
and the stage uses no endpoint.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import IO, Any

from components.contract.errors import InputError
from components.contract.job import Job, UriRef
from components.contract.registry import components
from components.runtime.inputs.inputs import import_uri, is_outside
from components.runtime.inputs.resolve import Upstream
from components.runtime.inputs.settle import settle_in_run
from components.runtime.ledger.notices import tell_alarm
from components.runtime.store import open_store
from pipelines.engines.shared.attempt import Ended, Events, Limit, OnEvent, last_line, timed_out
from pipelines.engines.shared.container import IMAGES, USER, image_kind

TOOLS = ("podman", "docker")
NETWORK = "POSTTRAIN_CONTAINER_NETWORK"
PASSED_ON = ("AWS_", "HF_", "SSL_CERT_")
"""Prefixes of variables by which a stage reaches a bucket or a hub; a command line holds only their names."""
POLL_SECONDS = 0.2


@dataclass(frozen=True)
class Containers:
    """Runs attempts at jobs in containers: called by the scheduler instead of forking a process."""

    tool: str
    images: Mapping[str, str]
    """Kind (cpu, gpu) -> image."""
    network: str | None = None
    """Network for stages whose store is not a folder; the tool's default if None."""

    @classmethod
    def find(cls, store: str, environ: Mapping[str, str] = os.environ) -> Containers:
        """Return what this machine has; raise InputError naming what is missing, or why it cannot work."""
        tool = next((name for name in TOOLS if shutil.which(name)), None)
        if tool is None:
            raise InputError(f"--containers needs {' or '.join(TOOLS)}; neither is installed")
        if "://" not in store and os.geteuid() == 0:
            raise InputError(
                f"--containers: stages never run as root, and cannot read what root owns in {store}; "
                "run posttrain as another user, or give it a bucket (--store s3://bucket/prefix)"
            )
        images = {kind: environ.get(variable) or f"posttrain-{kind}:latest" for kind, variable in IMAGES.items()}
        return cls(tool, images, environ.get(NETWORK) or None)

    def run_attempt(self, job: Job, log: Path, environment: dict[str, str], on_event: OnEvent, stop: Event) -> Ended:
        """Run one attempt to its end; stops the container when `stop` is set or its timeout passes."""
        job = _with_inputs_in_store(job)
        name = f"{job.run_id}-{job.stage}-{time.time_ns() % 1_000_000}"
        with log.open("ab") as output:
            process = subprocess.Popen(
                self.command(job, name, environment), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=output
            )
        assert process.stdin is not None and process.stdout is not None
        limit = Limit(job.timeout_seconds)

        def relay(event: dict[str, Any]) -> None:
            if event["event"] == "alarm" and event["alarm"]["cleared"] is None:
                tell_alarm(open_store(job.store), job, event["alarm"])  # the command is not in the container
            on_event(event)

        events = Events(relay, limit)
        reader = Thread(target=_read, args=(process.stdout, events), daemon=True)
        reader.start()
        process.stdin.write(job.model_dump_json().encode())
        process.stdin.close()
        while process.poll() is None:
            late = limit.is_over
            if late or stop.is_set():
                self._end(name, process)
                return timed_out(job.timeout_seconds or 0) if late else Ended(130, "stopped")
            time.sleep(POLL_SECONDS)
        reader.join()
        # the tool reports SIGKILL as 137: a person, or the memory limit
        code = -9 if process.returncode == 137 else process.returncode
        return events.ended(code, last_line=last_line(log), log=str(log))

    def command(self, job: Job, name: str, environment: Mapping[str, str]) -> list[str]:
        """Return the command that starts a job's container, which reads the job from its standard input."""
        resources = job.resources
        memory = f"{int(resources.memory_gib * 1024)}m"
        folder = None if "://" in job.store else job.store
        kind = image_kind(resources.gpus)
        names = [key for key in os.environ if key.startswith(PASSED_ON) or key in job.key_variables]
        return [
            *(self.tool, "run", "--rm", "--interactive", "--name", name),
            *("--read-only", "--cap-drop", "all", "--security-opt", "no-new-privileges", "--pids-limit", "1024"),
            # /dev/shm counts as memory; the tools' default of 64 MiB is too little for several processes
            *("--memory", memory, "--memory-swap", memory, "--shm-size", memory, "--volume", "/tmp"),
            *self._user(folder),
            *self._network(folder, job),
            *(["--gpus", str(resources.gpus)] if resources.gpus and self.tool == "docker" else []),
            *(["--device", "nvidia.com/gpu=all"] if resources.gpus and self.tool == "podman" else []),
            *(["--volume", f"{folder}:{folder}"] if folder else []),
            *(part for key, value in environment.items() for part in ("--env", f"{key}={value}")),
            *(part for key in names for part in ("--env", key)),
            self.images[kind],
        ]

    def _user(self, folder: str | None) -> list[str]:
        """Return the container's user: for a folder store the current user, so that each can read the other's files."""
        if folder is None:
            return ["--user", f"{USER}:{USER}"]
        keep = ["--userns", "keep-id"] if self.tool == "podman" else []
        return [*keep, "--user", f"{os.getuid()}:{os.getgid()}"]

    def _network(self, folder: str | None, job: Job) -> list[str]:
        if folder is not None and not job.endpoints:
            return ["--network", "none"]
        return ["--network", self.network] if self.network else []

    def _end(self, name: str, process: subprocess.Popen[bytes]) -> None:
        """Kill a container: a job is resumable at any instant, so there is nothing to wait for."""
        subprocess.run([self.tool, "kill", name], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        process.wait()


def _read(stream: IO[bytes], events: Events) -> None:
    """Handle a container launcher's standard output until it ends."""
    for line in stream:
        events.take(json.loads(line))


def _with_inputs_in_store(job: Job) -> Job:
    """Put files and downloads into the store first: a container sees only the store of this machine."""
    store = open_store(job.store)
    job = settle_in_run(job, store).job
    component = components().get(job.component)
    ports = component.inputs
    inputs = {
        port: [
            UriRef(uri=f"artifact:{import_uri(store, ref.uri, ports[port].type)}")
            if isinstance(ref, UriRef) and is_outside(ref.uri)
            else ref
            for ref in refs
        ]
        for port, refs in Upstream(job, component, store).chosen().items()
    }
    return job.model_copy(update={"inputs": inputs})
