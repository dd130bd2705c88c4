"""URIs of inputs that exist before a run: paths, file:, s3:, hf:, artifact:, models: and endpoint:."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

from components.contract.errors import InputError
from pipelines.language.problems import meant, shown

SCHEMES = ("file", "s3", "hf", "artifact", "models", "endpoint")
MAX_LENGTH = 1024

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
_SHELL = re.compile(r"[;|&$`<>*?!\"'\\{}()#\r\n\t]")
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", re.ASCII)
_FORMS = {
    "s3": (re.compile(r"//[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]/\S+"), "s3://bucket/key"),
    "hf": (re.compile(r"[A-Za-z0-9][\w.-]{0,95}(/[A-Za-z0-9][\w.-]{0,95})?", re.ASCII), "hf:organisation/name"),
    "artifact": (re.compile(r"[0-9a-f]{64}"), "artifact:<digest of 64 hexadecimal digits>"),
    "models": (
        re.compile(r"/[A-Za-z0-9][\w.-]{0,127}(@[A-Za-z][\w.-]{0,63}|/[0-9]+)", re.ASCII),
        "models:/name@alias or models:/name/version",
    ),
    "endpoint": (
        re.compile(r"[a-z0-9][a-z0-9_-]{0,127}"),
        "endpoint:<name>, of 'endpoints' in the pools' file",
    ),
}


def is_uri(text: str) -> bool:
    """Return whether a text of `in` is a URI or path rather than stage.port."""
    return "/" in text or text.startswith(("~", ".", "\\")) or _SCHEME.fullmatch(text) is not None


def check_uri(text: str, folder: Path | None, *, here: bool = True) -> str:
    """Return the URI with a relative path made absolute; raise InputError for an invalid input.

    `folder` is that of the recipe file with the URI; None if set from outside, relative to the working folder. Whether
    a path exists is checked if it is `here`, on this machine.
    """
    if len(text) > MAX_LENGTH:
        raise InputError(f"{shown(text)}: longer than {MAX_LENGTH} characters")
    if found := _SHELL.search(text):
        raise InputError(f"{shown(text)}: {found.group()!r} is not allowed in a path or URI")
    scheme, rest = "file", text
    if found := _SCHEME.fullmatch(text):
        scheme, rest = found[1], found[2]
    if scheme not in SCHEMES:
        raise InputError(f"{shown(text)}: unknown scheme {shown(scheme)}{meant(scheme, SCHEMES)}")
    if ".." in PurePosixPath(rest).parts:
        raise InputError(f"{shown(text)}: '..' is not allowed in a path or URI")
    if scheme in _FORMS:
        pattern, form = _FORMS[scheme]
        if not pattern.fullmatch(rest):
            raise InputError(f"{shown(text)}: expected {form}")
        return text
    return _local(rest.removeprefix("//"), folder, text, here=here)


def _local(path: str, folder: Path | None, text: str, *, here: bool) -> str:
    if not path.strip():
        raise InputError(f"{shown(text)}: the path is empty")
    local = home_path(path)
    if local.is_absolute():  # may be on the machines that run the stages, so it is not checked here
        return str(local)
    found = (folder or Path()).absolute() / local
    if here and not _exists(found):
        where = "beside the recipe" if folder else f"in {Path.cwd()}"
        hint = f"; did you mean {shown(f'hf:{text}')}?" if _HUB_NAME.fullmatch(text) else ""
        raise InputError(f"{shown(text)}: no such file or folder {where}{hint}")
    return str(found)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a name longer than the file system allows
        return False


def home_path(text: str) -> Path:
    """Return a path with `~` replaced by a user's folder; raise InputError where there is no such user."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise InputError(f"{shown(text)}: there is no such user's folder") from None
