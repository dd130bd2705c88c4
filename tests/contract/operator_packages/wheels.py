"""Wheels for tests: honest ones, and ones that are not."""

from __future__ import annotations

import base64
import hashlib
import stat
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path


def build_wheel(
    folder: Path,
    name: str,
    files: Mapping[str, str | bytes],
    *,
    version: str = "1.0",
    tag: str = "py3-none-any",
    requires: Sequence[str] = (),
    python: str = ">=3.8",
    links: Mapping[str, str] | None = None,
    record: bool = True,
) -> Path:
    """Write a wheel and return its path; `links` are entries that are symbolic links."""
    told = f"{name}-{version}.dist-info"
    metadata = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nRequires-Python: {python}"]
    metadata += [f"Requires-Dist: {text}" for text in requires]
    whole = {path: text.encode() if isinstance(text, str) else text for path, text in files.items()}
    whole |= {
        f"{told}/METADATA": "\n".join([*metadata, ""]).encode(),
        f"{told}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n".encode(),
    }
    rows = [f"{path},sha256={digest_of(data)},{len(data)}" for path, data in whole.items()] if record else []
    whole[f"{told}/RECORD"] = "\n".join([*rows, f"{told}/RECORD,,", ""]).encode()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for entry, data in whole.items():
            archive.writestr(entry, data)
        for entry, target in (links or {}).items():
            info = zipfile.ZipInfo(entry)
            info.external_attr = (stat.S_IFLNK | 0o777) << 16
            archive.writestr(info, target)
    return path


def digest_of(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
