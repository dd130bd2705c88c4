"""Inputs of a job given as URIs: their digests, and their import into the store as artifacts."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from components.contract.artifacts import ArtifactType, FileEntry, Manifest, describe_folder, hash_file
from components.contract.endpoints import FILE as ENDPOINT_FILE
from components.contract.endpoints import SCHEME as ENDPOINT
from components.contract.endpoints import Endpoint, endpoint_file, endpoint_manifest, endpoint_name
from components.contract.errors import InputError
from components.contract.table_suffixes import JSONL, TABLES, table_suffix
from components.runtime.closure.rows import named_verifiers
from components.runtime.inputs.adapters import is_adapter, merge_adapter
from components.runtime.lineage.registry import find_version

if TYPE_CHECKING:
    from components.runtime.store import Store

STORED = ("artifact", "models")
"""Schemes of inputs that are already in the store."""


NO_ENDPOINTS: Mapping[str, Endpoint] = {}


def uri_digest(
    store: Store, uri: str, type: ArtifactType, endpoints: Mapping[str, Endpoint] = NO_ENDPOINTS
) -> str | None:
    """Return the digest that `uri` has as an artifact of `type`, or None if it needs a download.

    `endpoints` are the declared endpoints that a recipe may name.
    """
    scheme, rest = _split(uri)
    if scheme == ENDPOINT:
        return endpoint_manifest(rest, _declared(uri, endpoints)).digest
    if scheme in STORED:
        return _stored(store, uri, type)
    return _local_digest(rest, type) if scheme == "file" else None


def _local_digest(path: str, type: ArtifactType) -> str | None:
    source = Path(path).expanduser()
    if not source.is_dir():
        rows = FileEntry(path=rows_name(source), sha256=hash_file(rows_file(path, type)), size=source.stat().st_size)
        return Manifest(type=type, files=(rows,)).digest
    refuse_what_is_no_file(source)
    # an import copies the targets of links, such as those in the hub's cache, and only then has a digest
    # and an adapter is merged
    adapted = type == ArtifactType.MODEL and is_adapter(source)
    return None if adapted or _holds_links(source) else describe_folder(source, type).digest


def uri_verifiers(uri: str) -> list[str] | None:
    """Return the verifiers that rows of a local file or folder name, or None if that needs a download."""
    scheme, rest = _split(uri)
    return named_verifiers(Path(rest).expanduser()) if scheme == "file" else None


def import_uri(store: Store, uri: str, type: ArtifactType, endpoints: Mapping[str, Endpoint] = NO_ENDPOINTS) -> str:
    """Import what `uri` names into the store as an artifact of `type` and return its digest.

    Understands artifact:<digest>, models:/name@alias, paths and file:, s3:, hf: (models) and endpoint:<name> of
    `endpoints`, of which the store gets what affects answers. Raises InputError with what to do.
    """
    scheme, rest = _split(uri)
    if scheme in STORED:
        return _stored(store, uri, type)
    with tempfile.TemporaryDirectory(prefix="posttrain-import-") as scratch:
        folder = Path(scratch) / "artifact"
        folder.mkdir()
        if scheme == ENDPOINT:
            (folder / ENDPOINT_FILE).write_bytes(endpoint_file(rest, _declared(uri, endpoints)))
        elif scheme == "file":
            folder = _stage_local(rest, type, folder)
            if type == ArtifactType.MODEL and is_adapter(folder):
                merge_adapter(folder, Path(scratch) / "merged")
                folder = Path(scratch) / "merged"
            if not folder.is_relative_to(scratch):  # a commit may move files, and the user's must stay
                folder = Path(shutil.copytree(folder, Path(scratch) / "copy"))
        elif scheme == "s3":
            from components.runtime.inputs.s3_input import download_input

            download_input(uri, folder)
        else:
            _download_hf(rest, type, folder)
        return store.commit(type, folder, {}).digest


def is_outside(uri: str) -> bool:
    """Return whether `uri` names something that must be imported into the store."""
    return _split(uri)[0] not in (*STORED, ENDPOINT)


def _declared(uri: str, endpoints: Mapping[str, Endpoint]) -> Endpoint:
    name = endpoint_name(uri)
    if name is None or name not in endpoints:
        raise InputError(f"input {uri}: the job holds no endpoint of this name; plan the recipe again")
    return endpoints[name]


def _split(uri: str) -> tuple[str, str]:
    parts = urlsplit(uri)
    if parts.scheme in (*STORED, "hf", ENDPOINT):
        return parts.scheme, uri.partition(":")[2].lstrip("/")
    if parts.scheme == "s3":
        return "s3", uri
    if parts.scheme in ("", "file"):
        return "file", parts.path
    raise InputError(
        f"input {uri!r}: unknown scheme {parts.scheme!r} (known: a path, file:, s3:, hf:, artifact:, models:)"
    )


def _stored(store: Store, uri: str, type: ArtifactType) -> str:
    """Return the digest of what is already in the store, as an artifact or as a version of a registered model."""
    scheme, rest = _split(uri)
    if scheme == "models":
        version = find_version(store, rest)
        if version is None:
            raise InputError(f"input {uri}: no model is registered under this name in {store.uri}")
        rest = version["digest"]
    manifest = store.manifest(rest)
    if manifest.type != type:
        raise InputError(f"artifact {rest[:12]} is a {manifest.type}, and the port takes a {type}")
    return manifest.digest


def _stage_local(path: str, type: ArtifactType, empty: Path) -> Path:
    """Return a folder in the artifact's layout: the user's folder, or `empty` with a single rows file copied in."""
    source = Path(path).expanduser()
    if source.is_dir():
        refuse_what_is_no_file(source)
        return source
    shutil.copyfile(rows_file(path, type), empty / rows_name(source))
    return empty


def rows_file(path: str, type: ArtifactType) -> Path:
    """Return a user's file of rows; raise InputError if it cannot be one."""
    source = Path(path).expanduser()
    if not source.is_file():
        raise InputError(f"input {path}: no such file or folder")
    suffixes = {ArtifactType.DATASET: TABLES, ArtifactType.ROLLOUTS: JSONL[:1]}.get(type, ())
    if table_suffix(source) not in suffixes:
        rows = f" (or, for rows, one file: {', '.join(suffixes)})" if suffixes else ""
        raise InputError(f"input {path}: a {type} is a folder{rows}")
    return source


def rows_name(source: Path) -> str:
    """Return the name that a user's file of rows has in an artifact; its format stays."""
    return f"rows{table_suffix(source) or ''}"


def refuse_what_is_no_file(source: Path) -> None:
    """Raise InputError for a folder that cannot be copied: it holds a device, a pipe or a link to no file."""

    def stop(error: OSError) -> None:
        raise InputError(f"input {source}: {error.filename}: {error.strerror}") from None

    for folder, folders, files in os.walk(source, onerror=stop):
        for path in (Path(folder) / name for name in (*files, *folders)):
            if path.is_symlink() and not path.is_file():
                raise InputError(f"input {source}: {path} is a link to no file; an artifact holds files of its own")
            if not (path.is_file() or path.is_dir()):
                raise InputError(f"input {source}: {path} is a device or a pipe; an artifact holds plain files only")


def _holds_links(folder: Path) -> bool:
    return any(path.is_symlink() for path in folder.rglob("*"))


def _download_hf(name: str, type: ArtifactType, folder: Path) -> None:
    if type != ArtifactType.MODEL:
        raise InputError(f"input hf:{name}: only models are read directly; use curate with the source 'hf' for rows")
    from huggingface_hub import snapshot_download

    snapshot_download(name, local_dir=folder, allow_patterns=["*.json", "*.safetensors", "*.model", "*.txt"])
    shutil.rmtree(folder / ".cache", ignore_errors=True)
