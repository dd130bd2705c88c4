"""A stage's process on the worker: what it says is read, it dies with its task, it sees none of Airflow's secrets."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from components.runtime.system.parent import children_of
from pipelines.engines.airflow.tasks.environment import stage_environment
from pipelines.engines.shared.stage_process import StageProcess

ROOT = Path(__file__).parents[4]
SPEAKS = """
import json, sys, time
print(json.dumps({"event": "started", "stage": "s", "time": 0}), flush=True)
print("a library prints", flush=True)
print('{"event": "not one of ours"}', flush=True)
sys.stderr.write("and warns without a line's end")
sys.stdout.buffer.write(b"\\xff not text\\n")
sys.stdout.flush()
"""
FINISHED = 'print(json.dumps({"event": "finished", "stage": "s", "time": 1}))\n'
FAILED = 'print(json.dumps({"event": "failed", "stage": "s", "time": 1, "error": "no data"})); sys.exit(%d)\n'
TASK = """
import os, sys
from pipelines.engines.shared.stage_process import StageProcess
process = StageProcess([sys.executable, "-c", sys.argv[1]], os.environ)
print(process.pid, flush=True)
process.follow(lambda event: None, lambda line: print(line, flush=True))
"""
SLEEPS = """
import os, signal
from components.runtime.system.parent import die_with_parent
die_with_parent()
print("tied", flush=True)
signal.pause()
"""


def follow(source: str) -> tuple[Any, list[str], list[str]]:
    """Run a Python text as a stage's process; return how it ended, its events and its other lines."""
    events: list[str] = []
    lines: list[str] = []
    process = StageProcess([sys.executable, "-c", source], os.environ)
    return process.follow(lambda event: events.append(event["event"]), lines.append), events, lines


def test_events_and_other_lines_are_told_apart() -> None:
    end, events, lines = follow(SPEAKS + FINISHED)
    assert (end.code, events) == (0, ["started", "finished"])
    assert sorted(lines) == sorted(
        ["a library prints", '{"event": "not one of ours"}', "and warns without a line's end", "\\xff not text"]
    )


def test_a_failure_is_what_the_stage_said_and_a_refusal_is_not_tried_again() -> None:
    end, _, _ = follow(SPEAKS + FAILED % 1)
    assert (end.error, end.retryable, end.silent) == ("no data", True, False)
    end, _, _ = follow(SPEAKS + FAILED % 2)
    assert (end.error, end.retryable) == ("no data", False)


def test_a_process_that_ends_without_a_word_says_how_it_was_killed() -> None:
    end, _, _ = follow("import os; print('so long', flush=True); os.kill(os.getpid(), 9)")
    assert end.silent and end.retryable
    assert "killed by SIGKILL" in str(end.error) and "last line: so long" in str(end.error)
    end, _, _ = follow("")
    assert end.code != 0 and "before the stage was done" in str(end.error)


def test_killing_takes_what_the_stage_started_with_it() -> None:
    source = "import subprocess, sys; p = subprocess.Popen(['sleep', '600']); print(p.pid, flush=True); p.wait()"
    process = StageProcess([sys.executable, "-c", source], os.environ)
    pids: list[int] = []

    def stop(line: str) -> None:
        pids.append(int(line))
        process.kill()

    end = process.follow(lambda event: None, stop)
    assert end.code == -signal.SIGKILL
    assert _ends(pids[0])


def test_a_killed_task_leaves_no_stage_behind() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    task = subprocess.Popen(
        [sys.executable, "-c", TASK, SLEEPS], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
    )
    assert task.stdout is not None
    stage = int(task.stdout.readline())
    assert stage in children_of(task.pid)
    assert task.stdout.readline() == "tied\n"
    task.kill()
    task.wait()
    assert _ends(stage)


def test_airflows_own_variables_stay_with_airflow() -> None:
    given = {"AIRFLOW__CORE__FERNET_KEY": "secret", "_AIRFLOW_X": "secret", "AIRFLOW_HOME": "x", "HOME": "/home"}
    kept = stage_environment(given)
    assert "secret" not in kept.values() and "AIRFLOW_HOME" not in kept
    assert (kept["HOME"], kept["OMP_NUM_THREADS"]) == ("/home", "1")
    assert {"version", "dirty"} <= json.loads(kept["POSTTRAIN_CODE"]).keys()


def _lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def _ends(pid: int) -> bool:
    descriptor = os.pidfd_open(pid) if _lives(pid) else None
    if descriptor is None:
        return True
    ready, _, _ = select.select([descriptor], [], [], 20)
    os.close(descriptor)
    return bool(ready)
