"""Candidates of a selection: the models, their order, and which are identical."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from components.contract.artifacts import ArtifactType, describe_folder
from components.contract.context import Input
from components.contract.errors import InputError

_PORT_NAME = re.compile(r"[\w.,=\[\]-]+")


@dataclass(frozen=True)
class Candidate:
    """A model that may be chosen. The order of candidates defines "earliest"."""

    name: str
    path: Path
    digest: str
    """Digest of the files alone, so that identical models are recognised whatever their source."""
    step: int | None = None
    """Training step, for a model from Checkpoints."""


def find_candidates(checkpoints: Sequence[Input], models: Sequence[Input]) -> tuple[list[Candidate], dict[str, str]]:
    """Return distinct candidates in order, and duplicate name -> name of the candidate it equals.

    Order: checkpoints artifacts as given, each by rising step, then models as given. Raises InputError for none.
    """
    named = [candidate for artifact in checkpoints for candidate in _of_checkpoints(artifact)]
    named += [_candidate(_source_name(artifact), artifact.path) for artifact in models]
    distinct: dict[str, Candidate] = {}
    duplicates: dict[str, str] = {}
    for candidate in named:
        first = distinct.setdefault(candidate.digest, candidate)
        if first is not candidate:
            duplicates[candidate.name] = first.name
    if not distinct:
        raise InputError("nothing to select from: connect input 'checkpoints' or input 'models'")
    return list(distinct.values()), duplicates


def model_digest(folder: Path) -> str:
    """Return the digest of a model folder's files."""
    return describe_folder(folder, ArtifactType.MODEL).digest


def copy_model(source: Path, target: Path) -> None:
    """Copy a model folder's files, without the read-only mode of stored artifacts."""
    for path in sorted(source.rglob("*")):
        if path.is_file():
            copy = target / path.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)


def _of_checkpoints(artifact: Input) -> list[Candidate]:
    index = artifact.path / "index.json"
    if not index.is_file():
        raise InputError(f"{artifact.source}: no index.json; it is not a Checkpoints artifact")
    entries = sorted(json.loads(index.read_text(encoding="utf-8")), key=lambda entry: entry["step"])
    source = _source_name(artifact)
    return [_candidate(f"{source}:{e['path']}", artifact.path / e["path"], step=e["step"]) for e in entries]


def _candidate(name: str, path: Path, step: int | None = None) -> Candidate:
    return Candidate(name=name, path=path, digest=model_digest(path), step=step)


def _source_name(artifact: Input) -> str:
    """Return "stage.port"; for a path or URI, which may name this machine, a name derived from the content."""
    return artifact.source if _PORT_NAME.fullmatch(artifact.source) else f"model-{artifact.digest[:12]}"
