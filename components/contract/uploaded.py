"""Local data that a client put into the store: where a stage runs, its paths are those of the client's machine.

A recipe's jobs keep the paths, so that they are the same jobs, with the same fingerprints, as on the client's machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from components.contract.artifacts import ArtifactType


class Upload(BaseModel):
    """A local file, folder or pattern that a recipe names, and the artifact that holds its content."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    path: str
    """As the job has it: absolute, on the client's machine."""
    kind: ArtifactType
    """What a port takes it as; Files for what an operator reads."""
    digest: str = Field(pattern=r"^[0-9a-f]{64}$")
    size: int = Field(ge=0)
    """Bytes."""


_digests: dict[str, str] = {}
_sources: list[Callable[[str], Path]] = []


def use(paths: Mapping[str, str], source: Callable[[str], Path]) -> None:
    """Take the files of these paths from the artifacts of their digests from now on, in place of any earlier ones."""
    _digests.clear()
    _digests.update(paths)
    _sources[:] = [source]


def files_of(path: str) -> list[Path] | None:
    """Return the files that a client found at a path, in its order; None for a path that is read where it is."""
    if path not in _digests:
        return None
    folder = _sources[0](_digests[path])
    return sorted(file for file in folder.rglob("*") if file.is_file())
