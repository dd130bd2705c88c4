"""The processes that train a stage together, found on this machine."""

from __future__ import annotations

from pathlib import Path

from tests.support.command_line import Project


def ranks_of(project: Project, number: int) -> list[int]:
    """Return the processes that are this rank of a stage of the project."""
    wanted, found = {f"RANK={number}".encode(), f"POSTTRAIN_STORE={project.store}".encode()}, []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command, environment = (folder / "cmdline").read_bytes(), (folder / "environ").read_bytes()
        except OSError:  # it has ended meanwhile
            continue
        if b"components.runtime.job.process" in command and wanted <= set(environment.split(b"\0")):
            found.append(int(folder.name))
    return found
