"""The seccomp filter of a run: an allow list of system calls, some of them only with harmless arguments.

Whatever is not on the list answers "not implemented", as on an older kernel, so that libraries fall back. Not on it:
sockets (except connected stream pairs), namespaces, mounts, ptrace and reading or writing other processes' memory, key
rings, BPF, io_uring, userfaultfd, performance events, System V memory, memory files, changes of users and clocks.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterable

from components.runtime.sandbox.inside.syscalls import NUMBERS

ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
LOAD, JUMP_EQUAL, JUMP_GREATER, JUMP_AT_LEAST, JUMP_BITS, AND, RETURN = 0x20, 0x15, 0x25, 0x35, 0x45, 0x54, 0x06
ALLOW, KILL, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
X32_BIT = 0x40000000
NEW_NAMESPACE_BITS = 0x7E020000
CLONE_PARENT = 0x8000
O_ACCMODE, O_TRUNC, O_TMPFILE = 0o3, 0o1000, 0o20000000

FILE_MARKS = (
    "chmod",
    "fchmod",
    "fchmodat",
    "fchmodat2",
    "chown",
    "fchown",
    "lchown",
    "fchownat",
    "utime",
    "utimes",
    "futimesat",
    "utimensat",
    "setxattr",
    "lsetxattr",
    "fsetxattr",
    "removexattr",
    "lremovexattr",
    "fremovexattr",
    "truncate",
)
"""Changes of files that Landlock does not watch (truncate before its third version)."""
SIGNALS = ("kill", "tkill", "tgkill")
PRCTL_OPTIONS = (3, 15, 16, 21, 23, 30, 38, 39, 42, 0x53564D41)
"""Names, read-only questions, no_new_privs, names of memory areas."""
IOCTLS = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451, 0x802C542A)
"""TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX, TCGETS2."""
FCNTL_REFUSED = (8, 10, 15, 1024, 1026)
"""Owners and signals of descriptors, leases and notices: they reach other processes."""

Instruction = tuple[int, int, int, int]


def build_filter(machine: str, *, watches_files: bool, own_signals_of: int | None = None) -> bytes:
    """Return the program as bytes for the kernel.

    watches_files: refuse the changes that Landlock lets pass (where the root is not read-only anyway).
    own_signals_of: a process that may signal only itself (where nothing else keeps it from others).
    """
    place = 0 if machine == "x86_64" else 1
    numbers = {name: both[place] for name, both in NUMBERS.items() if both[place] is not None}
    program = [_load(4), (JUMP_EQUAL, 1, 0, ARCHITECTURES[machine]), _return(KILL), _load(0)]
    if machine == "x86_64":
        program += [(JUMP_AT_LEAST, 0, 1, X32_BIT), _return(KILL)]
    rules = _rules(watches_files, own_signals_of)
    plain = sorted(numbers[name] for name in numbers.keys() - rules.keys())
    for first, last in _ranges(plain):
        program += [(JUMP_AT_LEAST, 0, 2, first), (JUMP_GREATER, 1, 0, last), _return(ALLOW)]
    for name, body in rules.items():
        if name in numbers:
            program += [(JUMP_EQUAL, 0, len(body), numbers[name]), *body]
    program.append(_return(ERRNO | errno.ENOSYS))
    return b"".join(struct.pack("HBBI", *one) for one in program)


def _rules(watches_files: bool, own_signals_of: int | None) -> dict[str, list[Instruction]]:
    rules = {
        "clone": [_load_argument(0), (JUMP_BITS, 0, 1, NEW_NAMESPACE_BITS | CLONE_PARENT), _refuse(), _return(ALLOW)],
        "socketpair": [_load_argument(0), (JUMP_EQUAL, 1, 0, 1), _refuse(), *_masked_equal(1, 0xF, 1)],
        "prctl": _only(0, PRCTL_OPTIONS, errno.EPERM),
        "ioctl": _only(1, IOCTLS, errno.ENOTTY),
        "fcntl": _except(1, FCNTL_REFUSED),
        "prlimit64": _only(0, (0,), errno.EPERM),
        "sched_setaffinity": _only(0, (0,), errno.EPERM),
        "setpriority": [_load_argument(0), (JUMP_EQUAL, 1, 0, 0), _refuse(), *_only(1, (0,), errno.EPERM)],
        "personality": _only(0, (0, 0xFFFFFFFF), errno.EPERM),
    }
    if watches_files:
        rules.update({name: [_refuse()] for name in FILE_MARKS})
        rules["open"], rules["openat"] = _opening(1), _opening(2)
    if own_signals_of is not None:
        rules.update({name: _only(0, (own_signals_of,), errno.EPERM) for name in SIGNALS})
    return rules


def _ranges(numbers: list[int]) -> Iterable[tuple[int, int]]:
    first = last = numbers[0]
    for number in numbers[1:]:
        if number != last + 1:
            yield first, last
            first = number
        last = number
    yield first, last


def _load(offset: int) -> Instruction:
    return LOAD, 0, 0, offset


def _load_argument(place: int) -> Instruction:
    return _load(16 + 8 * place)


def _return(what: int) -> Instruction:
    return RETURN, 0, 0, what


def _refuse(code: int = errno.EPERM) -> Instruction:
    return _return(ERRNO | code)


def _only(place: int, allowed: Iterable[int], code: int) -> list[Instruction]:
    body = [_load_argument(place)]
    for value in allowed:
        body += [(JUMP_EQUAL, 0, 1, value & 0xFFFFFFFF), _return(ALLOW)]
    return [*body, _refuse(code)]


def _except(place: int, refused: Iterable[int]) -> list[Instruction]:
    body = [_load_argument(place)]
    for value in refused:
        body += [(JUMP_EQUAL, 0, 1, value), _refuse()]
    return [*body, _return(ALLOW)]


def _masked_equal(place: int, mask: int, value: int) -> list[Instruction]:
    return [_load_argument(place), (AND, 0, 0, mask), (JUMP_EQUAL, 1, 0, value), _refuse(), _return(ALLOW)]


def _opening(place: int) -> list[Instruction]:
    """Refuse O_TRUNC without writing, which needs no right of Landlock 1 and 2, and files without a name."""
    return [
        _load_argument(place),
        (AND, 0, 0, O_TRUNC | O_ACCMODE),
        (JUMP_EQUAL, 0, 1, O_TRUNC),
        _refuse(),
        _load_argument(place),
        (JUMP_BITS, 0, 1, O_TMPFILE),
        _refuse(errno.EOPNOTSUPP),
        _return(ALLOW),
    ]
