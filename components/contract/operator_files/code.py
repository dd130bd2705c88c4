"""The source text of an operator's file and of the modules beside it that it imports, as it travels with a job."""

from __future__ import annotations

from functools import cached_property
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from components.contract.artifacts import hash_parts
from components.contract.operator_files.names import TravelName, check_file_name

MAX_BYTES = 64 * 1024
"""Most bytes of a file with its modules: it travels in jobs and in Kubeflow's pipelines."""


class OperatorCode(BaseModel):
    """A file and its modules. Where it lay is for messages and no part of its digest."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    file: str
    """Name of the operator's file among `files`."""
    files: dict[str, str] = Field(min_length=1)
    """Name of each file -> its text."""
    path: str = ""
    """Where the file lay when the recipe was read, as messages show it."""

    @field_validator("files")
    @classmethod
    def _names_that_can_travel(cls, files: dict[str, str]) -> dict[str, str]:
        for name in files:
            check_file_name(name)
        return files

    @model_validator(mode="after")
    def _whole_and_small(self) -> Self:
        if self.file not in self.files:
            raise ValueError(f"the file {self.file!r} is not among the files")
        if self.size > MAX_BYTES:
            raise ValueError(f"{self.size} bytes; a file and the modules it imports may have {MAX_BYTES}")
        return self

    @cached_property
    def digest(self) -> str:
        """Return the SHA-256 of the names and texts."""
        parts = [part for name in sorted(self.files) for part in (name, self.files[name])]
        return hash_parts("operator file", self.file, *parts)

    @property
    def size(self) -> int:
        """Return the bytes of all files."""
        return sum(len(text.encode("utf-8", "surrogatepass")) for text in self.files.values())

    def name(self, function: str) -> str:
        """Return the name under which a function of the file travels."""
        return str(TravelName(self.file, function, self.digest))

    def shown(self, file: str | None = None) -> str:
        """Return where one of the files lay, as messages show it; without it the operator's own file."""
        folder, _, _ = (self.path or self.file).rpartition("/")
        return f"{folder}/{file}" if file is not None and folder else file or self.path or self.file
