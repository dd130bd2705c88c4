"""Which backend this machine allows, determined by starting one and running something in it."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Sequence

from components.contract.errors import InputError
from components.runtime.sandbox.fork_server import ForkServer, NoStart
from components.runtime.sandbox.launch import BACKENDS, MissingProgram, launch
from components.runtime.sandbox.reply import Limits, NoSandbox

SETTING = "POSTTRAIN_SANDBOX"
"""Environment variable: `auto` (default), or a backend, which then has to work; `landlock:3` takes the kernel for one
with that version of Landlock at the most."""
PROBE = "components.runtime.sandbox.inside.programs:echo"
PROBE_SECONDS = 20.0

_found: dict[str, str] = {}
_lock = threading.Lock()


def _renew_lock() -> None:
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)  # another thread may have held it


def wanted_backends() -> tuple[str, ...]:
    """Return the backends to try, best first; InputError for an invalid setting."""
    setting = os.environ.get(SETTING, "auto") or "auto"
    if setting == "auto":
        return BACKENDS
    if setting not in BACKENDS and not re.fullmatch(r"landlock:[1-9]", setting):
        raise InputError(f"{SETTING}={setting}: it is auto, {' or '.join(BACKENDS)}")
    return (setting,)


def usable_backend() -> str:
    """Return the best backend that works here, tried once per process; NoSandbox if none does."""
    wanted = wanted_backends()
    with _lock:
        key = ",".join(wanted)
        if key not in _found:
            _found[key] = _try(wanted)
        return _found[key]


def start(backend: str, modules: Sequence[str], tools: Sequence[str]) -> ForkServer:
    """Start a server; NoStart with the reason if the backend does not work."""
    try:
        return ForkServer(launch(backend, modules, tools))
    except MissingProgram as error:
        raise NoStart(f"{error} is not installed") from None
    except OSError as error:
        raise NoStart(str(error)) from None


def _try(wanted: Sequence[str]) -> str:
    reasons = []
    for backend in wanted:
        try:
            _probe(backend)
        except NoStart as error:
            reasons.append(f"{backend}: {error}")
            continue
        return backend
    raise NoSandbox(
        "no sandbox for what a model wrote: install bubblewrap (apt-get install bubblewrap) and allow user namespaces "
        "(sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone), or boot a kernel with Landlock "
        f"(5.13 or newer, lsm=landlock); {'; '.join(reasons)}"
    )


def _probe(backend: str) -> None:
    server = start(backend, (), ())
    try:
        server.load([])
        limits = Limits(seconds=PROBE_SECONDS)
        body = {"function": PROBE, "argument": backend, "limits": vars(limits)}
        try:
            head, value, _ = server.call(body, limits.seconds, limits.output_bytes)
        except Exception as error:
            raise NoStart(server.complaint() or f"its server ended ({type(error).__name__})") from None
        if head["status"] != "value" or value.decode() != f'"{backend}"':
            raise NoStart(head["detail"] or "it gave no answer")
    finally:
        server.stop()
