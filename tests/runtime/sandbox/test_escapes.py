"""Hostile programs: 0 escapes, 0 hangs, every one answered within its limit plus 2 s."""

from __future__ import annotations

import shutil
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from components.runtime.sandbox import Limits, Status, fork_server, open_sandbox
from tests.runtime.sandbox.escapes import ANSWER_SECONDS, ATTACKS, RUN_PYTHON, honest, run_suite

AT_ONCE = 64
ENDLESS_C = "int main() { volatile long n = 0; for (;;) n++; }"
BOMB_C = "#include <unistd.h>\nint main() { for (;;) fork(); }"
MEMORY_C = """
#include <stdlib.h>
#include <string.h>
int main() {
    for (;;) {
        char *p = malloc(1 << 20);
        if (!p) abort();
        memset(p, 1, 1 << 20);
    }
}
"""
SEARCH = """
def search(reversed_marker):
    marker = bytes(reversed_marker)[::-1]
    found = 0
    for line in open("/proc/self/maps"):
        span, modes, *_ = line.split()
        if "rw" in modes:
            start, end = (int(one, 16) for one in span.split("-"))
            with open("/proc/self/mem", "rb", 0) as memory:
                memory.seek(start)
                try:
                    found += memory.read(end - start).count(marker)
                except OSError:
                    pass
    return found
"""


def test_no_hostile_program_escapes_or_hangs(backend):
    assert len(ATTACKS) >= 80
    assert len({attack.name for attack in ATTACKS}) == len(ATTACKS)
    rows = run_suite()
    assert len(rows) == len(ATTACKS) + 1
    assert not [row for row in rows if row.problems]


def test_64_at_once_are_answered_in_time(backend):
    sources = (
        "while True: pass",
        "import os\nwhile True:\n  try: os.fork()\n  except OSError: pass",
        "import os\nos._exit(0)",
        "print(6 * 7)",
    )
    limits = Limits(seconds=2.0, processes=4, memory_bytes=64 << 20)
    with open_sandbox(servers=AT_ONCE) as sandbox, ThreadPoolExecutor(AT_ONCE) as pool:
        ready = threading.Barrier(AT_ONCE)

        def one(place: int) -> tuple[Status, str, float]:
            ready.wait()
            sandbox.call("components.runtime.sandbox.inside.programs:echo", place)  # starts a server
            ready.wait()
            began = time.monotonic()
            reply = sandbox.call(RUN_PYTHON, {"source": sources[place % 4]}, limits)
            return reply.status, reply.stdout, time.monotonic() - began

        replies = list(pool.map(one, range(AT_ONCE)))
    assert max(seconds for _, _, seconds in replies) < limits.seconds + ANSWER_SECONDS
    assert [status for status, _, _ in replies[0::4]] == [Status.TIMEOUT] * (AT_ONCE // 4)
    assert {status for status, _, _ in replies[1::4]} <= {Status.TIMEOUT, Status.DIED}
    assert [status for status, _, _ in replies[2::4]] == [Status.DIED] * (AT_ONCE // 4)
    assert {(status, printed) for status, printed, _ in replies[3::4]} <= {(Status.VALUE, "42\n"), (Status.TIMEOUT, "")}


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
@pytest.mark.parametrize(
    ("source", "statuses"),
    [(ENDLESS_C, {"timeout"}), (BOMB_C, {"timeout", "died"}), (MEMORY_C, {"memory", "died", "value"})],
)
def test_hostile_programs_in_c_are_ended(backend, source, statuses):
    program = {"files": {"a.c": source}, "commands": [["gcc", "-O0", "-o", "a", "a.c"], ["./a"]], "most": 1000}
    limits = Limits(seconds=3.0, processes=10, memory_bytes=256 << 20)
    with open_sandbox(tools=("gcc",), servers=1) as sandbox:
        assert honest(sandbox) == []
        began = time.monotonic()
        reply = sandbox.call("components.runtime.sandbox.inside.programs:run_command", program, limits)
        assert time.monotonic() - began < limits.seconds + ANSWER_SECONDS
        assert reply.status in statuses, reply
        assert reply.status is not Status.VALUE or reply.value["exit"] < 0
        assert honest(sandbox) == []


def test_a_run_does_not_hold_the_nonce_of_its_reply(backend, monkeypatch):
    if backend == "landlock":
        pytest.skip("a run cannot read its memory as a file there")
    marker = b"nonce-of-16-byte"
    monkeypatch.setattr(fork_server.secrets, "token_bytes", lambda count: marker[:count])
    sought = {"source": SEARCH, "entry": "search", "arguments": [list(marker[::-1])]}
    with open_sandbox(servers=1) as sandbox:
        fresh = sandbox.call(RUN_PYTHON, sought)
    assert fresh.status is Status.VALUE, fresh
    # One load and one call have come before the fork: the load's nonce may still lie in freed memory, the call's cannot.
    assert fresh.value <= 3


def test_nothing_runs_after_close(backend):
    sandbox = open_sandbox(servers=1)
    assert honest(sandbox) == []
    (slot,) = sandbox._idle
    process = slot._server._process
    assert process.poll() is None
    sandbox.close()
    assert process.poll() is not None
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(process.pid)], capture_output=True, text=True)
    assert listed.stdout.strip() == ""
