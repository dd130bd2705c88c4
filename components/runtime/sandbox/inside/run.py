"""One run: the process in which a trusted function works on model output."""

from __future__ import annotations

import ctypes
import os
import resource
import struct
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from components.runtime.sandbox.inside import kernel
from components.runtime.sandbox.values import encode

ANSWER = 3
"""The descriptor of a run's answer; 0 is /dev/null, 1 and 2 what it prints. It has no other."""
ANSWER_HEAD = struct.Struct("!cI")
VALUE, RAISED, MEMORY, OUTPUT = b"V", b"R", b"M", b"O"
SHOWN_OF_AN_ERROR = 500
GIB = 1 << 30
OPEN_FILES = 128
SEED = 0

Function = Callable[[Any], Any]


def take_descriptors(answer: int, out: int) -> None:
    """Keep an answer's pipe, an output's pipe and /dev/null, and close everything else."""
    os.dup2(answer, ANSWER, inheritable=False)
    null = os.open("/dev/null", os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(out, 1)
    os.dup2(out, 2)
    os.closerange(ANSWER + 1, 1 << 20)


def set_limits(limits: dict[str, Any], base: dict[str, int], processes: int) -> None:
    """Bound this process: `base` is what the server itself holds, `processes` how many its user may have in all."""
    memory = int(limits["memory_bytes"])
    seconds = int(limits["seconds"]) + 2
    for what, bound in (
        (resource.RLIMIT_DATA, base["VmData"] + memory),
        (resource.RLIMIT_AS, base["VmSize"] + memory + (int(limits["address_bytes"]) or GIB)),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_FSIZE, int(limits["file_bytes"])),
        (resource.RLIMIT_NOFILE, OPEN_FILES),
        (resource.RLIMIT_NPROC, processes),
        (resource.RLIMIT_CORE, 1),  # with 1 even a handler that the kernel pipes cores to is not started
        (resource.RLIMIT_MEMLOCK, 0),
        (resource.RLIMIT_MSGQUEUE, 0),
    ):
        hard = resource.getrlimit(what)[1]
        if hard != resource.RLIM_INFINITY:
            bound = min(bound, hard)
        resource.setrlimit(what, (bound, bound))


def answer(function: Function, argument: Any, most: int) -> NoReturn:
    """Call the function, send the outcome, and end at once, without running exit handlers."""
    kind, payload = _outcome(function, argument)
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        try:
            stream.flush()
        except BaseException:
            continue
    if len(payload) > most:
        kind, payload = OUTPUT, b""
    data = ANSWER_HEAD.pack(kind, len(payload)) + payload
    while data:
        data = data[os.write(ANSWER, data) :]
    os._exit(0)


def be_reproducible() -> None:
    """Seed the random numbers, so that what a program draws is the same on every run."""
    for name in ("random", "numpy.random"):
        module = sys.modules.get(name)
        if module is not None:
            module.seed(SEED)


def lose_privileges(program: bytes) -> None:
    """Give up capabilities, hide this process's memory from other runs, and enter the filter of system calls."""
    kernel.drop_capabilities()
    kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
    kernel.install_filter(program)


def _outcome(function: Function, argument: Any) -> tuple[bytes, bytes]:
    try:
        return VALUE, encode(function(argument))
    except MemoryError:
        return MEMORY, b""
    except BaseException as error:
        return RAISED, _shown(error)


def _shown(error: BaseException) -> bytes:
    try:
        return f"{type(error).__name__}: {error}"[:SHOWN_OF_AN_ERROR].encode("utf-8", "replace")
    except BaseException:  # its text is the program's own code
        return b"an exception that cannot be shown"


def settle_libraries() -> None:
    """Import what a run needs itself, before any is forked."""
    ctypes.PyDLL(None)
    import json.encoder
    import random

    assert json.encoder and random
