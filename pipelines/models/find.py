"""A model as people name it: an output of a run, a registered model, a digest, a folder, or a recipe's URI."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from components.contract.artifacts import ArtifactType
from components.contract.errors import InputError
from components.runtime.inputs.adapters import is_adapter
from components.runtime.inputs.inputs import import_uri
from components.runtime.ledger.ledger import Ledger
from components.runtime.lineage.graph.references import Reference, resolve_reference, without_scheme
from pipelines.runs.find import whole_reference

if TYPE_CHECKING:
    from components.runtime.store import Store

CONFIG = "config.json"
OUTSIDE = ("s3://", "hf:", "file:")


@dataclass(frozen=True)
class FoundModel:
    """A model folder, and where it comes from as far as the store knows."""

    name: str
    """What to call it: "quickstart-20261122 rl.model", "quickstart version 3", or the folder."""
    folder: Path
    digest: str | None = None
    """None for a folder outside of the store."""
    run_id: str | None = None
    stage: str | None = None
    registered: str | None = None
    reference: str | None = None
    """How the lineage graph finds it, in the run or under the version that was named."""


def model_of(store: Store, text: str) -> FoundModel:
    """Return the model that `text` means; its run may also be "latest" or a recipe's name. Raises as `find_model`."""
    reference = without_scheme(text)
    run, mark, _ = reference.partition(":")
    is_output = mark and "/" not in run and not reference.startswith(OUTSIDE)
    return find_model(store, whole_reference(store, reference) if is_output else reference)


def find_model(store: Store, text: str) -> FoundModel:
    """Return the model that `text` means; run ids in it are whole, or unique beginnings.

    Raises InputError, with near misses, for an unknown name and for what is no model.
    """
    folder = Path(text).expanduser()
    if folder.is_dir():
        return _in_folder(store, folder)
    if text.startswith(f"{store.uri}/objects/"):
        return _stored(store, Reference(text.removeprefix(f"{store.uri}/objects/").partition("/")[0]))
    if text.startswith(OUTSIDE):
        return _stored(store, Reference(import_uri(store, text, ArtifactType.MODEL)), name=text)
    return _stored(store, resolve_reference(Ledger(store), text), reference=text)


def _in_folder(store: Store, folder: Path) -> FoundModel:
    """Return the model in a folder; one inside of the store's objects keeps its lineage."""
    resolved = folder.resolve()
    digest = resolved.parent.name
    if resolved.name == "files" and str(resolved).startswith(f"{store.uri}/objects/") and store.has(digest):
        return _stored(store, Reference(digest))
    if is_adapter(folder):
        return _stored(store, Reference(import_uri(store, str(folder), ArtifactType.MODEL)), name=str(folder))
    if not (folder / CONFIG).is_file():
        raise InputError(f"{folder} is not a model folder: it has no {CONFIG}")
    return FoundModel(str(folder), folder)


def _stored(store: Store, found: Reference, name: str = "", reference: str | None = None) -> FoundModel:
    manifest = store.manifest(found.digest)
    if manifest.type != ArtifactType.MODEL:
        raise InputError(
            f"artifact {found.digest[:12]} is a {manifest.type}, not a Model; posttrain show RUN lists outputs"
        )
    registered = f"{found.registered['name']} version {found.registered['version']}" if found.registered else None
    made = f"{found.run_id} {found.stage}" if found.run_id else found.digest[:12]
    return FoundModel(
        name or registered or made,
        store.fetch(found.digest),
        found.digest,
        found.run_id,
        found.stage,
        found.registered["name"] if found.registered else None,
        reference or found.digest,
    )
