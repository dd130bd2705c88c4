"""The last steps of the server into bubblewrap's sandbox when our process is root."""

from __future__ import annotations

import os

from components.runtime.sandbox.inside import kernel

NOBODY = 65534


def become_nobody() -> None:
    """Give up being root: root outside of a user namespace is exempt from limits on processes, and owns too much.

    Before that, a whole /proc is mounted: bubblewrap covers parts of root's, and with parts covered no run could
    mount one of its own.
    """
    if os.getuid() != 0:
        return
    kernel.mount("proc", "/proc", kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC)
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    kernel.drop_capabilities()
    kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
