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

from tests.support.s3_server import in_memory_writer
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


ASK = """
  more: {uses: toy-train, in: {model: base.model}, approve: true}
"""


@pytest.mark.slow
def test_a_killed_watcher_goes_on_with_the_run_that_waits_for_a_person(recipe: Path, tmp_path: Path) -> None:
    recipe.write_text(RECIPE.replace("stages: {base: {uses: toy-train}}", f"stages:\n  base: {{uses: toy-train}}{ASK}"))
    command = toy_command(tmp_path / "store")
    (tmp_path / "rows").write_text("1")
    first = Watcher(tmp_path / "store", str(recipe))
    said = first.until("waiting for a decision")
    run_id = said.rpartition("on run ")[2].partition(";")[0]
    first.end(signal.SIGKILL)
    second = Watcher(tmp_path / "store", str(recipe))
    assert f"going on with run {run_id}" in second.until("waiting for a decision")
    assert command("approve", run_id, "more").returncode == 0
    assert "succeeded" in second.until("Ctrl-C ends it")
    assert second.end(signal.SIGINT)[0] == 0
    listed = json.loads(command("list", "runs", "--json").stdout)["runs"]
    assert [(run["run_id"], run["status"]) for run in listed] == [(run_id, "succeeded")]


@pytest.mark.slow
def test_sigterm_during_a_run_stops_it_and_the_next_watcher_goes_on_with_it(recipe: Path, tmp_path: Path) -> None:
    recipe.write_text(RECIPE.replace("{uses: toy-train}", '{uses: toy-train, with: {spin: "${params.spin}"}}'))
    recipe.write_text(recipe.read_text().replace("params: {", "params: {spin: true, "))
    (tmp_path / "rows").write_text("1")
    watcher = Watcher(tmp_path / "store", str(recipe))
    watcher.until("running")
    assert watcher.end(signal.SIGTERM)[0] == 130
    again = Watcher(tmp_path / "store", str(recipe))
    assert "going on with run fed-" in again.until("running")
    assert again.end(signal.SIGTERM)[0] == 130
    shown = json.loads(toy_command(tmp_path / "store")("list", "runs", "--json").stdout)["runs"]
    assert [run["status"] for run in shown] == ["stopped"], "one run, and not one more"


@pytest.mark.slow
def test_new_objects_are_read_and_the_same_ones_are_cached(s3_uri: str, tmp_path: Path) -> None:
    bucket, _, prefix = s3_uri.removeprefix("s3://").partition("/")
    put = in_memory_writer(bucket, prefix)
    recipe = tmp_path / "rows.yaml"
    recipe.write_text(f"""\
name: rows
schedule: {{on: "{s3_uri}/", poll: 1s}}
stages:
  data:
    uses: curate
    with: {{kind: prompts, split: [0.0, 1.0], sources: [{{domain: sums, source: {{name: jsonl, path: "{s3_uri}/"}}}}]}}
""")
    command = toy_command(tmp_path / "store")

    def rows(first: int) -> bytes:
        return "\n".join(
            json.dumps({"prompt": f"{n}+1=", "answer": str(n + 1)}) for n in range(first, first + 8)
        ).encode()

    put("a.jsonl", rows(0))
    watcher = Watcher(tmp_path / "store", str(recipe))
    watcher.until("Ctrl-C ends it")
    assert "succeeded" in watcher.until("Ctrl-C ends it")
    assert "1 cached" in command("plan", str(recipe)).stdout
    put("b.jsonl", rows(100))
    assert f"file changed: {s3_uri}/" in command("plan", str(recipe)).stdout
    assert "succeeded" in watcher.until("Ctrl-C ends it")
    again = json.loads(command("run", str(recipe), "--new", "--json").stdout)
    assert watcher.end(signal.SIGTERM)[0] == 0
    runs = json.loads(command("list", "runs", "--json").stdout)["runs"]
    shown = [json.loads(command("show", run["run_id"], "--json").stdout) for run in reversed(runs)]
    found = [(one["stages"][0]["cache"], one["stages"][0]["metrics"]["num_rows"]) for one in shown]
    assert found == [("miss", 8), ("miss", 16), ("hit", 16)]
    assert shown[1]["trigger"]["text"] == f"{s3_uri}/: 1 new (b.jsonl)" and again["trigger"] is None
