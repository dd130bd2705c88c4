"""A wheel as a code tree: read as the hostile file that it may be, unpacked in memory, never run."""

from __future__ import annotations

import base64
import csv
import email
import hashlib
import io
import lzma
import re
import stat
import sys
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import Version

from components.contract.artifacts import hash_bytes
from components.contract.errors import InputError
from components.contract.operator_packages import contents
from components.contract.operator_packages.code import CodeTree
from components.contract.operator_packages.rules import (
    DERIVED_IMAGE,
    MAX_BYTES,
    check_file,
    check_together,
    check_whole,
)
from components.contract.small_files import read_small_file
from components.contract.terminal import visible_line

SUFFIX = ".whl"
PIN = "#sha256="
UNREADABLE = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, OSError),  # OSError: bz2 of a damaged stream
    *(NotImplementedError, EOFError, RuntimeError, ValueError),
)
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,198}[A-Za-z0-9])?")


@dataclass(frozen=True)
class Wheel:
    """A wheel that may travel."""

    tree: CodeTree
    version: str
    sha256: str
    """Of the wheel's file."""
    requires: tuple[Requirement, ...]
    """What it needs in every installation: requirements of extras are left out."""


def read_wheel(path: Path, shown: str, pin: str = "") -> Wheel:
    """Return the wheel of a file; `pin` is the SHA-256 that it must have.

    Raises InputError, in one line, for a file that is no wheel, is not pure Python, does not match its pin or its own
    RECORD, or holds a path that leads out of it.
    """
    _check_tags(path.name, shown)
    try:
        data = read_small_file(path, MAX_BYTES)
    except ValueError as error:
        raise InputError(f"{shown}: cannot be read: {error}") from None
    digest = hash_bytes(data)
    if pin and digest != pin:
        raise InputError(f"{shown}: its sha256 is {digest}, and the recipe pins {pin}")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            files = _files(archive, shown)
    except InputError:
        raise
    except UNREADABLE as error:
        raise InputError(f"{shown}: not readable as a wheel: {visible_line(str(error))}") from None
    told = _told(files, shown)
    _check_record(files, f"{told}/RECORD", shown)
    message = email.message_from_bytes(files.get(f"{told}/METADATA", b""))
    modules = sorted(
        {top.removesuffix(".py") for name in files if (top := name.split("/")[0]) and name.endswith(".py")}
    )
    if not modules or not all(module.isidentifier() for module in modules):
        raise InputError(f"{shown}: holds no Python module")
    name, version, requires = _metadata(message, shown)
    kept = contents.keep(files)
    tree = CodeTree(name=path.name, digest=kept, modules=tuple(modules), distribution=name, path=shown)
    return Wheel(tree, version, digest, tuple(requires))


def _check_tags(name: str, shown: str) -> None:
    try:
        tags = parse_wheel_filename(name)[3]
    except InvalidWheelFilename as error:
        raise InputError(f"{shown}: no name of a wheel: {visible_line(str(error))}") from None
    if not any(tag.abi == "none" and tag.platform == "any" for tag in tags):
        built = ", ".join(sorted(map(str, tags)))
        raise InputError(f"{shown}: built for {built}; only pure Python (none-any) travels: {DERIVED_IMAGE}")


def _files(archive: zipfile.ZipFile, shown: str) -> dict[str, bytes]:
    listed = [one for one in archive.infolist() if not one.is_dir()]
    check_whole((one.file_size for one in listed), shown)
    files: dict[str, bytes] = {}
    for one in listed:
        mode = one.external_attr >> 16
        if mode and stat.S_IFMT(mode) not in (0, stat.S_IFREG):
            raise InputError(f"{shown}: {visible_line(one.filename)} is a link or a device; a wheel holds files")
        check_file(one.filename, one.file_size, shown)
        if one.filename in files:
            raise InputError(f"{shown}: {visible_line(one.filename)} is in it twice")
        with archive.open(one) as stream:
            data = stream.read(one.file_size + 1)  # no more than it says, whatever the archive would give
        if len(data) != one.file_size:
            raise InputError(f"{shown}: {visible_line(one.filename)} does not have the size that the archive says")
        files[one.filename] = data
    check_together(files, shown)
    return files


def _told(files: Mapping[str, bytes], shown: str) -> str:
    """Return the wheel's folder of metadata."""
    found = sorted({name.split("/")[0] for name in files if name.split("/")[0].endswith(".dist-info")})
    if len(found) != 1 or f"{found[0]}/METADATA" not in files:
        raise InputError(f"{shown}: not a wheel: it has {len(found)} folders .dist-info, and needs one with METADATA")
    if strange := next((name for name in files if name.split("/")[0].endswith(".data")), None):
        raise InputError(f"{shown}: {visible_line(strange)} belongs outside of the import path: {DERIVED_IMAGE}")
    return found[0]


def _check_record(files: Mapping[str, bytes], record: str, shown: str) -> None:
    """Raise InputError unless every file has the SHA-256 that the wheel's RECORD names."""
    rows = csv.reader(io.StringIO(files.get(record, b"").decode("utf-8", "replace"), newline=""))
    try:
        named = {row[0]: row[1] for row in rows if len(row) >= 2}
    except csv.Error as error:
        raise InputError(f"{shown}: RECORD: {error}") from None
    for name, data in files.items():
        if name == record or name.endswith((".jws", ".p7s")):
            continue
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        if named.get(name) != f"sha256={digest}":
            raise InputError(f"{shown}: {visible_line(name)} does not match its RECORD; build the wheel again")


def _metadata(message: email.message.Message, shown: str) -> tuple[str, str, list[Requirement]]:
    """Return the name, the version and what is required; raise InputError for what is none of these."""
    name, version = str(message.get("Name", "")), str(message.get("Version", ""))
    if not _NAME.fullmatch(name):
        raise InputError(f"{shown}: METADATA: {visible_line(repr(name[:80]))} is no name of a distribution")
    try:
        Version(version)
        python = str(message.get("Requires-Python", ""))
        here = ".".join(map(str, sys.version_info[:3]))
        if python and not SpecifierSet(python).contains(here, prereleases=True):
            raise InputError(f"{shown}: needs Python {visible_line(python)}, and stages run on {here}")
        found = [Requirement(str(line)) for line in message.get_all("Requires-Dist", [])]
        return name, version, [one for one in found if one.marker is None or one.marker.evaluate({"extra": ""})]
    except ValueError as error:  # of packaging: a version, a requirement, or a marker that compares what cannot be
        raise InputError(f"{shown}: METADATA: {visible_line(str(error))}") from None


def pinned_path(text: str) -> tuple[str, str]:
    """Return path and SHA-256 of `path.whl#sha256=<hex>`; an empty one where none is pinned."""
    path, _, pin = text.partition(PIN)
    return path, pin
