"""How a run's output ends where something is damaged, full or away: the usual lines, and what is wrong."""

from __future__ import annotations

import contextlib
import json
import resource
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from components.runtime.lineage.delivery.deliver import delivery_state
from components.runtime.lineage.delivery.followed import Followed
from components.runtime.store import open_store
from tests.support.toy_command import RECIPE, Command, toy_command

LINES = ["run", "report", "mlflow"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """Return a store in which the toy recipe ran, and what it made."""
    store = tmp_path_factory.mktemp("made") / "store"
    return store, json.loads(toy_command(store)("run", RECIPE, "--json").stdout)


@pytest.fixture
def cached(made: tuple[Path, dict[str, Any]], tmp_path: Path) -> tuple[Command, Path, dict[str, Any]]:
    """Return the command on a copy of it, the copy and what was made."""
    store = shutil.copytree(made[0], tmp_path / "store")
    return toy_command(store), store, made[1]


def ending(out: str) -> dict[str, str]:
    """Return the lines of a run's ending by their first word."""
    return {line.partition(" ")[0]: line.partition(" ")[2].strip() for line in out.split("\n\n")[-1].splitlines()}


def score_of(shown: dict[str, Any]) -> str:
    """Return the digest of the scores, which the report reads."""
    return next(stage for stage in shown["stages"] if stage["name"] == "score")["outputs"]["metrics"]["digest"]


def test_a_damaged_output_is_told_and_made_anew(cached: tuple[Command, Path, dict[str, Any]]) -> None:
    posttrain, store, shown = cached
    shutil.rmtree(store / "objects" / score_of(shown) / "files")
    page = Path(posttrain("report", shown["run_id"]).stdout.strip()).read_text()
    assert "<b>score</b>: output metrics cannot be read: " in page
    seen = posttrain("show", shown["run_id"])
    assert (seen.returncode, seen.stderr) == (1, "")
    assert (
        f"score.metrics ({score_of(shown)[:12]}) is damaged: history.jsonl is missing; posttrain verify" in seen.stdout
    )
    done = posttrain("run", RECIPE)
    assert (done.returncode, done.stderr) == (0, "")
    assert "history.jsonl is missing; set aside in" in done.stdout
    told = ending(done.stdout)
    assert told.keys() >= set(LINES)
    assert "cannot be read" not in Path(told["report"]).read_text()
    assert posttrain("compare", shown["run_id"], "latest").returncode == 0
    assert posttrain("verify").returncode == 0


def test_a_damaged_record_does_not_hide_the_other_stages(cached: tuple[Command, Path, dict[str, Any]]) -> None:
    posttrain, store, shown = cached
    record = store / "ledger" / shown["run_id"] / "stages" / "base.json"
    record.chmod(0o644)
    record.write_text("{}")
    done = posttrain("show", shown["run_id"])
    words = {line.split()[0]: line.split()[2] for line in done.stdout.splitlines() if "  toy-" in line}
    assert (done.returncode, done.stderr) == (1, "")
    assert words == {"base": "unreadable", "train": "done", "again": "skipped", "score": "done"}
    assert "base: its record cannot be read: " in done.stdout and "made anew" not in done.stdout
    page = Path(posttrain("report", shown["run_id"]).stdout.strip()).read_text()
    assert "<b>base</b>: its record cannot be read: " in page
    assert "3 cached" in posttrain("plan", RECIPE).stdout


def test_a_cached_run_says_soon_what_lineage_waits_for(cached: tuple[Command, Path, dict[str, Any]]) -> None:
    posttrain, _, _ = cached
    live = {"POSTTRAIN_LINEAGE": "live", "MLFLOW_TRACKING_URI": "foo://bar"}
    began = time.monotonic()
    done = posttrain("run", RECIPE, variables=live)
    assert time.monotonic() - began < 10, "three seconds, on a machine with nothing else to do"
    assert "some lineage is not there yet (foo://bar: MLflow takes no foo: address" in done.stdout
    done = posttrain("run", RECIPE, variables={"POSTTRAIN_LINEAGE": "live", "MLFLOW_TRACKING_URI": ""})
    assert "events of lineage come with posttrain ui, or with the next run that has something to do" in done.stdout


def test_runs_in_which_nothing_ran_start_no_deliverer_and_the_next_delivers_them(
    cached: tuple[Command, Path, dict[str, Any]],
) -> None:
    posttrain, store, _ = cached
    live = {"POSTTRAIN_LINEAGE": "live", "MLFLOW_TRACKING_URI": ""}
    for _ in range(2):
        posttrain("run", RECIPE, variables=live)
        assert not deliverers(store)
    followed = Followed(open_store(str(store)), f"sqlite:///{store.parent / 'mlflow.db'}")
    waiting = {run_id for run_id, _ in followed.runs()}
    assert len(waiting) == 2
    done = posttrain("run", RECIPE, "--set", "seed=4321", variables=live)
    assert "of lineage come with" not in done.stdout
    deadline = time.monotonic() + 120
    while followed.runs() and time.monotonic() < deadline:
        time.sleep(0.1)
    uri = f"sqlite:///{store.parent / 'mlflow.db'}"
    assert [delivery_state(open_store(str(store)), run_id, uri).pending for run_id in waiting] == [0, 0]


def deliverers(store: Path) -> list[str]:
    """Return the command lines of running deliverers of a store."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            found += [line] * ("lineage.delivery.deliver" in line and str(store) in line)
    return found


def test_a_full_disk_leaves_what_can_be_told(cached: tuple[Command, Path, dict[str, Any]]) -> None:
    """The report is the largest file of a toy run: the disk is full for it, and has room for the rest."""
    posttrain, _, _ = cached
    limit = (8192, 8192)
    done = posttrain("run", RECIPE, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit))
    told = ending(done.stdout)
    assert (done.returncode, done.stderr) == (1, "")
    assert told.keys() >= {*LINES, "next"}
    assert told["run"].endswith(": succeeded")
    assert told["report"].startswith("none: report of run ") and "File too large. Check free space" in told["report"]
    assert "None" not in done.stdout
