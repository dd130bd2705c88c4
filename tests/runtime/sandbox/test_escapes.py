"""Hostile programs: 0 escapes, 0 hangs, every one answered within its limit plus 2 s."""

from __future__ import annotations

import shutil
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from components.runtime.sandbox import RUN_COMMAND, Limits, Status, fork_server, open_sandbox
from components.runtime.sandbox.backends import SETTING
from components.runtime.sandbox.inside import landlock
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
FLIP = 1
SEARCH = """
import ctypes
def search(flipped):
    "Count what is sought in all writable memory without ever holding it: sought and found are compared flipped."
    table, sought, found = bytes(byte ^ 1 for byte in range(256)), bytes(flipped), 0
    with open("/proc/self/maps") as maps:
        areas = [line.split()[:2] for line in maps]
    for span, modes in areas:
        if modes.startswith("rw"):
            start, end = (int(one, 16) for one in span.split("-"))
            found += ctypes.string_at(start, end - start).translate(table).count(sought)
    return found
"""


def test_no_hostile_program_escapes_or_hangs(backend):
    assert len(ATTACKS) >= 80
    assert len({attack.name for attack in ATTACKS}) == len(ATTACKS)
    rows = run_suite()
    assert len(rows) == len(ATTACKS) + 1
    assert not [row for row in rows if row.problems]


@pytest.mark.slow
@pytest.mark.parametrize("version", [1, 3, 5])
def test_older_versions_of_landlock_hold_too(version, monkeypatch):
    if landlock.version() < version:
        pytest.skip("this kernel has no Landlock")
    monkeypatch.setenv(SETTING, f"landlock:{version}")
    assert not [row for row in run_suite() if row.problems]


def test_64_at_once_are_answered_in_time(backend):
    sources = (
        "while True: pass",
        "import os\nwhile True:\n  try: os.fork()\n  except OSError: pass",
        "import os\nos._exit(0)",
        "print(6 * 7)",
    )
    endless = Limits(seconds=2.0, processes=4, memory_bytes=64 << 20)
    ending = replace(endless, seconds=120.0)  # those that end by themselves do so when the machine has time
    with open_sandbox(servers=AT_ONCE) as sandbox, ThreadPoolExecutor(AT_ONCE) as pool:
        ready = threading.Barrier(AT_ONCE)

        def one(place: int) -> tuple[Status, str, float]:
            ready.wait()
            sandbox.call("components.runtime.sandbox.inside.programs:echo", place)  # starts a server
            ready.wait()
            began = time.monotonic()
            limits = endless if place % 4 < 2 else ending
            reply = sandbox.call(RUN_PYTHON, {"source": sources[place % 4]}, limits)
            return reply.status, reply.stdout, time.monotonic() - began

        replies = list(pool.map(one, range(AT_ONCE)))
    hostile = (seconds for place, (_, _, seconds) in enumerate(replies) if place % 4 < 2)
    assert max(hostile) < endless.seconds + ANSWER_SECONDS
    assert [status for status, _, _ in replies[0::4]] == [Status.TIMEOUT] * (AT_ONCE // 4)
    assert {status for status, _, _ in replies[1::4]} <= {Status.TIMEOUT, Status.DIED}
    assert [status for status, _, _ in replies[2::4]] == [Status.DIED] * (AT_ONCE // 4)
    assert {(status, printed) for status, printed, _ in replies[3::4]} == {(Status.VALUE, "42\n")}


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
@pytest.mark.parametrize(
    ("source", "statuses"),
    [(ENDLESS_C, {"timeout"}), (BOMB_C, {"timeout", "died"}), (MEMORY_C, {"memory", "died", "value"})],
)
def test_hostile_programs_in_c_are_ended(backend, source, statuses):
    program = {
        "files": {"a.c": source},
        "commands": [["gcc", "-O0", "-o", "a", "a.c"], ["./a"]],
        "makes": ["a"],
        "most": 1000,
    }
    limits = Limits(seconds=3.0, processes=10, memory_bytes=256 << 20)
    with open_sandbox(tools=("gcc",), servers=1) as sandbox:
        assert honest(sandbox) == []
        began = time.monotonic()
        reply = sandbox.call(RUN_COMMAND, program, limits)
        assert time.monotonic() - began < limits.seconds + ANSWER_SECONDS
        assert reply.status in statuses, reply
        assert reply.status is not Status.VALUE or reply.value["exit"] < 0
        assert honest(sandbox) == []


def test_a_run_does_not_hold_the_nonce_of_its_reply(backend, monkeypatch):
    if backend == "landlock":
        pytest.skip("a run cannot read its memory as a file there")
    given: list[bytes] = []

    def token_bytes(count: int) -> bytes:
        given.append(f"nonce{len(given):03d}".encode().ljust(count, b"#"))
        return given[-1]

    monkeypatch.setattr(fork_server.secrets, "token_bytes", token_bytes)
    known = "planted-in-memory"
    with open_sandbox(servers=1) as sandbox:
        honest(sandbox)
        place = len(given)  # of the nonce of the next call
        for sought in (f"nonce{place:03d}", f"nonce{place + 1:03d}"):
            found = sandbox.call(RUN_PYTHON, {"source": SEARCH, "entry": "search", "arguments": [flipped(sought)]})
            assert (found.status, found.value) == (Status.VALUE, 0), found
        planted = {"source": f"{SEARCH}\nkept = {known!r}", "entry": "search", "arguments": [flipped(known)]}
        assert sandbox.call(RUN_PYTHON, planted).value > 0
    assert len(given) > place + 2


def flipped(text: str) -> list[int]:
    return [byte ^ FLIP for byte in text.encode()]


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
