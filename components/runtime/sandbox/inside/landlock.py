"""Landlock through ctypes: what a process may access if it has no namespaces of its own."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field

from components.runtime.sandbox.inside import kernel

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
ASK_VERSION = 1
PATH_BENEATH = 1
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
TRUNCATE = 1 << 14
FILE_RIGHTS = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | 1 << 15
MAKE_DEVICES = 1 << 6 | 1 << 11
"""Character and block devices: never allowed."""
REMOVE = 1 << 4 | 1 << 5
RIGHTS_OF_VERSION = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1, 5: (1 << 16) - 1}
READ = EXECUTE | READ_FILE | READ_DIR
TCP_RIGHTS = 3
SCOPES = 3
"""Abstract sockets and signals reach only what is in the same domain or one below."""
FIRST_WITH_SCOPES = 6


@dataclass(frozen=True)
class Domain:
    """What remains allowed: paths to read and execute, paths to write too, device files."""

    readable: Iterable[str]
    writable: Iterable[str] = field(default=())
    devices: Iterable[str] = field(default=())
    removes: bool = False
    """Whether it may delete and rename what is writable."""


def version() -> int:
    """Return this kernel's Landlock version, 0 if it has none."""
    try:
        return kernel.check(kernel.syscall(CREATE_RULESET, None, 0, ASK_VERSION), "landlock_create_ruleset")
    except OSError as error:
        if error.errno in (errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM, errno.EACCES):
            return 0
        raise


def restrict(domain: Domain, known: int) -> None:
    """Enter the domain for good; `known` is the kernel's version."""
    rights = RIGHTS_OF_VERSION[min(known, 5)]
    attributes = [rights, *([TCP_RIGHTS] if known >= 4 else []), *([SCOPES] if known >= FIRST_WITH_SCOPES else [])]
    writing = rights & ~MAKE_DEVICES & ~(0 if domain.removes else REMOVE)
    ruleset = _create(attributes)
    try:
        for paths, allowed in (
            (domain.readable, READ),
            (domain.writable, writing),
            (domain.devices, READ_FILE | WRITE_FILE),
        ):
            for path in paths:
                _allow(ruleset, path, allowed & rights)
        _enter(ruleset)
    finally:
        os.close(ruleset)


def restrict_signals() -> None:
    """Enter a domain that bounds signals and abstract sockets and nothing else."""
    ruleset = _create([0, 0, SCOPES])
    try:
        _enter(ruleset)
    finally:
        os.close(ruleset)


def _create(attributes: list[int]) -> int:
    raw = struct.pack(f"{len(attributes)}Q", *attributes)
    return kernel.check(kernel.syscall(CREATE_RULESET, raw, len(raw), 0), "landlock_create_ruleset")


def _enter(ruleset: int) -> None:
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    kernel.check(kernel.syscall(RESTRICT_SELF, ruleset, 0), "landlock_restrict_self")


def _allow(ruleset: int, path: str, allowed: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if not os.path.isdir(path):
            allowed &= FILE_RIGHTS
        raw = struct.pack("=Qi", allowed, descriptor)
        kernel.check(kernel.syscall(ADD_RULE, ruleset, PATH_BENEATH, raw, 0), f"landlock_add_rule {path}")
    finally:
        os.close(descriptor)
