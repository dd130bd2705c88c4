"""The notification command: told on its standard input, never by a shell, and never in the run's way."""

from __future__ import annotations

import json
import shlex
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from components.contract.job import Approval, Job
from components.runtime.ledger.notices import tell_alarm, tell_failure, tell_question
from components.runtime.ledger.records import failure_key, run_key
from components.runtime.store import Store, open_store
from components.runtime.system import notify as module
from components.runtime.system.notify import COMMAND, THREAD, notify

HOSTILE = "$(touch /tmp/owned); `id` \"'\n\x1b[31m | rm -rf ."
WRITE = "import sys; open(sys.argv[1], 'a').write(sys.stdin.read() + chr(10))"
ALARM = {"name": "loss_exploded", "since": 3, "raised": 7, "text": HOSTILE, "helps": "lower lr", "cleared": None}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "store"))


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file to which the command appends what it is told."""
    path = tmp_path / "told $(x)"
    monkeypatch.setenv(COMMAND, shlex.join([sys.executable, "-c", WRITE, str(path)]))
    return path


def job(store: Store) -> Job:
    plain = {"recipe": "x", "stage": "sft", "component": "sft", "params": {}, "inputs": {}, "seed": 0}
    return Job(run_id="r-1", store=store.uri, approve=Approval(message=HOSTILE), **plain)


def heard(path: Path) -> list[dict[str, Any]]:
    """Return what the command was told, once every one that was started has ended."""
    for thread in threading.enumerate():
        if thread.name == THREAD:
            thread.join(60)
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_an_alarm_and_a_question_are_told_once_as_they_are(store: Store, told: Path) -> None:
    for _ in range(2):  # the container and the engine that watches it, or a retry
        tell_alarm(store, job(store), ALARM)
    [alarm] = heard(told)
    assert (alarm["event"], alarm["run_id"], alarm["stage"]) == ("alarm", "r-1", "sft")
    assert alarm["alarm"] == {name: ALARM[name] for name in ("name", "since", "text", "helps")}
    tell_question(store, job(store))
    question = heard(told)[1]
    assert (question["event"], question["message"], question["command"]) == (
        "waiting",
        HOSTILE,
        "posttrain approve r-1 sft",
    )


def test_a_failed_run_is_told_with_what_failed(store: Store, told: Path) -> None:
    store.put(run_key("r-1"), {"recipe": "x", "stages": []})
    store.put(failure_key("r-1", "sft"), {"stage": "sft", "error": "told to fail"})
    tell_failure(store, "r-1", 1.0)
    [failure] = heard(told)
    assert (failure["event"], failure["failures"]) == ("failed", {"sft": "told to fail"})


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("/no/such/program", "No such file"),
        ("'unclosed", "No closing quotation"),
        (
            shlex.join([sys.executable, "-c", "import sys; print('\x1b[31mno', file=sys.stderr); sys.exit(3)"]),
            "exit code 3",
        ),
        (shlex.join([sys.executable, "-c", "import time; time.sleep(600)"]), "took longer"),
    ],
)
def test_a_command_that_fails_is_a_line_on_stderr_and_nothing_more(
    command: str, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "LIMIT_SECONDS", 2.0)
    thread = notify({"event": "alarm"}, {COMMAND: command})
    assert thread is not None
    thread.join(60)
    error = capsys.readouterr().err
    assert said in error
    assert "\x1b" not in error


def test_nothing_is_written_or_started_without_a_command(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(COMMAND, raising=False)
    tell_alarm(store, job(store), ALARM)
    assert list(store.keys("ledger/")) == []
    assert notify({"event": "alarm"}) is None
