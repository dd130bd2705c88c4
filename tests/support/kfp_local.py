"""Kubeflow's own local runner on podman's Docker-compatible socket, with what kfp 2.17 gets wrong in it set right.

Set right here, in `repaired`:
- a container that fails is taken for one that succeeded if it is removed before it is asked how it ended;
- a pipeline's command does not take the place of the image's entry point, as it does in Kubernetes;
- variables of a component take the place of those that the runner was given, and do not join them.
Left as it is: limits, secrets, node selectors and timeouts of the pipeline are ignored. Output artifacts of container
components are lost unless the container writes an answer, which posttrain's containers do.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

START_SECONDS = 30


@dataclass
class Ran:
    """What the runner started."""

    commands: list[list[str]] = field(default_factory=list)
    codes: list[int] = field(default_factory=list)
    output: str = ""


@contextmanager
def podman_socket(path: Path) -> Iterator[str]:
    """Serve Docker's API by podman on a socket until the end of the block; yield its address."""
    address = f"unix://{path}"
    server = subprocess.Popen(["podman", "system", "service", "--time", "0", address])
    try:
        deadline = time.monotonic() + START_SECONDS
        while not path.exists():
            assert server.poll() is None and time.monotonic() < deadline, "podman's service did not start"
            time.sleep(0.1)
        yield address
    finally:
        server.terminate()
        server.wait()


@contextmanager
def repaired(variables: Mapping[str, str]) -> Iterator[Ran]:
    """Mend kfp's runner for a block; every container gets `variables`. Yields what it started."""
    from kfp.local import docker_task_handler as handler

    ran = Ran()

    def run(client: Any, image: str, command: list[str], volumes: dict[str, Any], **given: Any) -> int:
        given["environment"] = {**variables, **given.get("environment", {})}
        container = client.containers.run(
            image=image, entrypoint=command[:1], command=command[1:], volumes=volumes, detach=True, **given
        )
        try:
            ran.commands.append(command)
            ran.output += b"".join(container.logs(stream=True, follow=True)).decode(errors="replace")
            ran.codes.append(container.wait()["StatusCode"])
            return ran.codes[-1]
        finally:
            container.remove(force=True)

    original = handler.run_docker_container
    handler.run_docker_container = run
    try:
        yield ran
    finally:
        handler.run_docker_container = original
