"""How each backend starts a sandbox."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from components.runtime.sandbox.inside import server
from components.runtime.sandbox.inside.folder import empty
from components.runtime.sandbox.inside.places import DEVICES, PRIVATE
from components.runtime.sandbox.visible import interpreter, links, search_path, visible_paths

MOST_VERSION = 9
BACKENDS = ("bubblewrap", "landlock")
BOOTSTRAP = "import sys; sys.path[len(sys.path):] = {path!r}\nfrom {server} import main\nmain()"
ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "PYTHONHASHSEED": "0",  # what a program does with sets is the same on every run
    "OMP_NUM_THREADS": "1",  # a server with threads could not be forked safely
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "OPENSSL_CONF": "/dev/null",  # node exits if it cannot read its own config
}
CACHE_BYTES = 256 << 20
SCRATCH = "posttrain-sandbox-"


class MissingProgram(Exception):
    """A program that a backend or a language needs is not installed; the text is its name."""


@dataclass(frozen=True)
class Launch:
    """A command to start, and the folder to remove when it has ended."""

    command: Sequence[str]
    environment: dict[str, str]
    scratch: str = ""
    info: int = -1
    """Where bubblewrap says which process it started: the writing end, to be closed once it runs."""
    info_reader: int = -1


def launch(backend: str, modules: Sequence[str], tools: Sequence[str]) -> Launch:
    """Return what starts a server with this backend; MissingProgram, or OSError without a temporary folder."""
    for tool in tools:
        if shutil.which(tool) is None:
            raise MissingProgram(tool)
    readable = visible_paths(["components", *modules], tools)
    backend, _, version = backend.partition(":")
    if backend == "bubblewrap":
        return _bubblewrap(readable, modules)
    _sweep()
    scratch = tempfile.mkdtemp(prefix=f"{SCRATCH}{os.getpid()}-")
    settings = {"backend": backend, "readable": readable, "scratch": scratch, "parent": os.getpid()}
    settings["version"] = int(version or MOST_VERSION)
    return Launch(_python(settings, modules), _environment(scratch), scratch)


def _bubblewrap(readable: Sequence[str], modules: Sequence[str]) -> Launch:
    program = shutil.which("bwrap")
    if program is None:
        raise MissingProgram("bwrap")
    reader, writer = os.pipe()
    root = os.geteuid() == 0
    command = [program, "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    if root:
        # Root needs no user namespace here; the server gives up these few capabilities before it reads a request.
        needed = ("CAP_SETUID", "CAP_SETGID", "CAP_SYS_ADMIN", "CAP_SETPCAP")
        command += ["--cap-drop", "ALL", *(word for name in needed for word in ("--cap-add", name))]
    else:
        command += ["--unshare-user", "--cap-drop", "ALL"]
    # No --die-with-parent: bubblewrap killed before it lets its first process go leaves that one waiting for ever. Let
    # go, it serves, finds its channel closed and ends.
    command += ["--as-pid-1", "--new-session", "--hostname", "sandbox", "--info-fd", str(writer)]
    command += [
        "--perms",
        "1777",
        "--size",
        str(CACHE_BYTES),
        "--tmpfs",
        PRIVATE,
    ]  # libraries keep caches; no run sees it
    for folder in _parents([*readable, *DEVICES]):
        command += ["--perms", "0755", "--dir", folder]  # it would make them for root alone
    for path in readable:
        command += ["--ro-bind", path, path]
    for target, link in links():
        command += ["--symlink", target, link]
    for device in DEVICES:
        command += ["--dev-bind", device, device]
    command += ["--proc", "/proc", "--remount-ro", "/", "--chdir", "/"]
    below_private = [path for path in readable if path.startswith(PRIVATE + "/")]
    settings = {"backend": "bubblewrap", "below_private": below_private, "info_reader": reader}
    command += _python(settings, modules)
    return Launch(command, _environment(PRIVATE), info=writer, info_reader=reader)


def _parents(paths: Sequence[str]) -> list[str]:
    return sorted({str(folder) for path in paths for folder in Path(path).parents} - {"/", PRIVATE})


def _sweep() -> None:
    """Remove the scratch folders of processes that were killed before a guard watched them."""
    for old in Path(tempfile.gettempdir()).glob(f"{SCRATCH}*"):
        pid = old.name[len(SCRATCH) :].partition("-")[0]
        with contextlib.suppress(OSError):
            if old.lstat().st_uid == os.getuid() and not Path(f"/proc/{pid}").exists():
                empty(str(old))
                old.rmdir()


def _python(settings: dict[str, object], modules: Sequence[str]) -> list[str]:
    bootstrap = BOOTSTRAP.format(path=search_path(modules), server=server.__name__)
    return [interpreter(), "-S", "-s", "-P", "-B", "-X", "utf8", "-c", bootstrap, json.dumps(settings)]


def _environment(home: str) -> dict[str, str]:
    return {**ENVIRONMENT, "HOME": home, "TMPDIR": home}
