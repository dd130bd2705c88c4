"""`posttrain run --watch` and `posttrain schedule` as a user runs them: processes, signals, exit codes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.toy_command import PLUGIN, ROOT, toy_command

RECIPE = """\
name: fed
params: {rows: ./rows}
schedule: {on: "${params.rows}", poll: 1s}
stages: {base: {uses: toy-train}}
"""


class Watcher:
    """A watching process, read line by line."""

    def __init__(self, store: Path, *arguments: str) -> None:
        path = os.pathsep.join([str(PLUGIN), *filter(None, [os.environ.get("PYTHONPATH")])])
        variables = {"POSTTRAIN_STORE": str(store), "POSTTRAIN_LINEAGE": "later", "PYTHONPATH": path}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pipelines.cli", "run", *arguments, "--watch"],
            cwd=ROOT,
            env={**os.environ, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def until(self, words: str) -> str:
        """Return what it said up to a line with these words."""
        assert self.process.stdout is not None
        said = ""
        for line in self.process.stdout:
            said += line
            if words in line:
                return said
        raise AssertionError(f"it ended without {words!r}: {said}")

    def end(self, by: signal.Signals) -> tuple[int, str]:
        """Send a signal; return exit code and last words."""
        self.process.send_signal(by)
        said, _ = self.process.communicate(timeout=120)
        return self.process.returncode, said


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "fed.yaml"
    path.write_text(RECIPE)
    return path


@pytest.fixture
def watcher(recipe: Path, tmp_path: Path) -> Iterator[Watcher]:
    watcher = Watcher(tmp_path / "store", str(recipe))
    yield watcher
    watcher.process.kill()
    watcher.process.wait()


def test_new_files_start_a_run_that_says_so_and_sigterm_ends_it(watcher: Watcher, recipe: Path, tmp_path: Path) -> None:
    command = toy_command(tmp_path / "store")
    assert f"a change of {tmp_path / 'rows'} (nothing there yet)" in watcher.until("waiting for")
    second = command("run", str(recipe), "--watch")
    assert second.returncode == 2 and "this recipe is watched already: " in second.stderr
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "a\x1b[31m.jsonl").write_text("{}")
    assert "succeeded" in watcher.until("waiting for")
    code, said = watcher.end(signal.SIGTERM)
    assert (code, said.split(" ", 1)[1]) == (0, "no longer watching\n")
    shown = json.loads(command("show", "latest", "--json").stdout)
    assert shown["trigger"]["changes"][0]["new"] == ["a\x1b[31m.jsonl"]
    text = f"{tmp_path / 'rows'}: 1 new (a\\x1b[31m.jsonl)"
    assert shown["trigger"]["text"] == text
    assert f"started by {text}" in command("show", "latest").stdout
    page = Path(command("report", "latest").stdout.strip()).read_text()
    assert f"started by {text}" in page and "\x1b" not in page


def test_what_cannot_be_watched_is_said_at_once(recipe: Path, tmp_path: Path) -> None:
    command = toy_command(tmp_path / "store")

    def refused(*arguments: str) -> str:
        done = command(*arguments)
        assert done.returncode == 2 and "Traceback" not in done.stderr
        return done.stderr

    plain = tmp_path / "plain.yaml"
    plain.write_text("name: plain\nstages: {base: {uses: toy-train}}\n")
    assert "has no 'schedule' and reads nothing from outside" in refused("run", str(plain), "--watch")
    assert "--new is for a single run" in refused("run", str(recipe), "--watch", "--new")
    asset = ("--set", "schedule.on={asset: a}")
    assert "engine local cannot start runs by assets (a); use --engine airflow" in refused(
        "run", str(recipe), "--watch", *asset
    )
    assert "engine toy keeps schedules by itself: posttrain schedule" in refused(
        "run", str(recipe), "--watch", "--engine", "toy"
    )
    assert "posttrain run RECIPE --watch waits in the foreground" in refused(
        "schedule", str(recipe), "--engine", "local"
    )
    cannot = f"engine toy cannot start runs when data change ({tmp_path / 'rows'}); use --engine local or airflow"
    assert cannot in refused("schedule", str(recipe), "--engine", "toy")
    assert "has no 'schedule'" in refused("schedule", str(plain), "--engine", "airflow")
    assert "whose schedule?" in refused("schedule", "--engine", "airflow", "--off")


def test_the_plan_shows_the_schedule_and_what_an_engine_cannot_do(recipe: Path, tmp_path: Path) -> None:
    command = toy_command(tmp_path / "store")
    planned = command("plan", str(recipe), "--engine", "toy", "--set", "schedule.cron=0 3 * * *")
    assert "schedule: cron 0 3 * * * (UTC), next " in planned.stdout
    assert f"schedule: whenever one of these changes, looked at every 1s: {tmp_path / 'rows'}" in planned.stdout
    assert "engine toy cannot start runs by time (cron 0 3 * * * (UTC)); use --engine " in planned.stdout
    assert planned.returncode == 0
