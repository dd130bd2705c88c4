"""System calls that Python does not offer, through ctypes."""

from __future__ import annotations

import ctypes
import os
import platform
import struct

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_CAPBSET_DROP = 1, 4, 22, 24
PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 36, 38, 47
PR_CAP_AMBIENT_CLEAR_ALL = 4
SECCOMP_MODE_FILTER = 2
NEW_NAMESPACES = 0x00020000 | 0x10000000 | 0x20000000
"""CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWPID."""
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC = 2, 4, 8, 4096, 16384
CAPABILITY_VERSION_3 = 0x20080522
NUMBERS = {
    "x86_64": {"clone": 56, "capset": 126},
    "aarch64": {"clone": 220, "capset": 91},
}
LAST_CAPABILITY = 63

# PyDLL keeps the interpreter's lock over the call: a forked copy of this process begins with it held.
_libc = ctypes.PyDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def machine() -> str:
    """Return the processor's name as the tables of system calls know it; OSError for one that they do not."""
    name = platform.machine()
    if name not in NUMBERS:
        raise OSError(f"no table of system calls for the processor {name}")
    return name


def check(result: int, what: str) -> int:
    """Return a system call's result, or raise its error."""
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
    return result


def syscall(number: int, *arguments: int | bytes | ctypes.Array | None) -> int:
    """Make a system call by its number; the result may be negative."""
    return _libc.syscall(
        ctypes.c_long(number), *(ctypes.c_long(one) if isinstance(one, int) else one for one in arguments)
    )


def prctl(option: int, *arguments: int) -> int:
    """Call prctl; OSError when it refuses."""
    padded = [*arguments, 0, 0, 0, 0][:4]
    return check(_libc.prctl(option, *(ctypes.c_ulong(one) for one in padded)), f"prctl {option}")


def mount(kind: str, target: str, flags: int, data: str = "") -> None:
    """Mount a new file system of this kind."""
    name = kind.encode()
    check(_libc.mount(name, target.encode(), name, ctypes.c_ulong(flags), data.encode() or None), f"mount {target}")


def bind(source: str, target: str) -> None:
    """Mount what is there already at another place too; read-only stays read-only."""
    check(_libc.mount(source.encode(), target.encode(), None, ctypes.c_ulong(MS_BIND | MS_REC), None), f"bind {target}")


def clone_namespaces() -> int:
    """Fork into new user, mount and PID namespaces; 0 in the child, which may only do simple things and fork."""
    return check(syscall(NUMBERS[machine()]["clone"], NEW_NAMESPACES | 17, 0, 0, 0, 0), "clone")


def map_own_user(user: int, group: int) -> None:
    """Map this user and group to themselves in the new user namespace."""
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        descriptor = os.open(f"/proc/self/{name}", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(descriptor, text.encode())
        finally:
            os.close(descriptor)


def drop_capabilities() -> None:
    """Give up every capability, for this process and whatever it starts."""
    for capability in range(LAST_CAPABILITY + 1):
        if _libc.prctl(PR_CAPBSET_DROP, ctypes.c_ulong(capability), 0, 0, 0) < 0:
            break  # beyond the last that this kernel has, or not permitted: what follows drops them all the same
    _libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    header = struct.pack("II", CAPABILITY_VERSION_3, 0)
    check(syscall(NUMBERS[machine()]["capset"], header, bytes(24)), "capset")


def install_filter(program: bytes) -> None:
    """Put a seccomp program (see `seccomp`) over this process and its descendants."""
    instructions = ctypes.create_string_buffer(program, len(program))
    head = struct.pack("H6xP", len(program) // 8, ctypes.addressof(instructions))
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    pointer = ctypes.create_string_buffer(head, len(head))
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.addressof(pointer))
