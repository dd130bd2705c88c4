"""CPU time of a process and all that it started, against what the kernel says once it has ended."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from components.runtime.system import usage

BUSY = "import time\nwhile time.process_time() < 0.35: pass\nprint(1, flush=True)\ninput()\n"
TREE = f"import subprocess, sys\nchild = subprocess.Popen([sys.executable, '-c', {BUSY!r}])\nchild.wait()\n"


@pytest.mark.parametrize("listed", [True, False])
def test_living_descendants_count(listed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not listed:
        monkeypatch.setattr(usage, "_listed_children", lambda pid: None)
    before = usage.cpu_seconds()
    with subprocess.Popen([sys.executable, "-c", TREE], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdin is not None
        process.stdout.readline()  # the grandchild has worked, and lives
        alive = usage.cpu_seconds() - before
        process.stdin.write(b"\n")
        process.stdin.flush()
        process.wait()
    assert alive >= 0.3, "the kernel counts whole ticks: user and system time may each lack one"
    assert usage.cpu_seconds() - before >= alive, "what ended stays counted"


def test_the_kernels_list_and_a_search_of_all_processes_agree() -> None:
    with subprocess.Popen(["sleep", "60"]) as one, subprocess.Popen(["sleep", "60"]) as other:
        found = usage._children_by_parent()(os.getpid())
        assert {one.pid, other.pid} <= set(found)
        listed = usage._listed_children(os.getpid())
        assert listed is None or sorted(listed) == sorted(found)
        one.kill()
        other.kill()
