"""Forks of a real training: what is shared is equal, killed or not; a change begins at the fork and is told."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import LIMIT_SECONDS, Project, caches, digests

Finished = tuple[Project, dict[str, Any]]
KEEPING = ("--set", "stages.rl.with.checkpoint_every=2", "--set", "stages.rl.keep_partial=every 2")
"""A change of the checkpoints alone: rl runs anew from the cached stages before it, and what follows is cached."""
NUM_FORKS, KILLS_EACH = 5, 5
DEFAULT_KILLS = 2


@pytest.fixture
def parent(copied: Finished) -> Finished:
    """A run of the micro recipe that kept the checkpoints of rl's steps 2 and 4."""
    project, straight = copied
    shown = project.run(*KEEPING)
    assert digests(shown) == digests(straight)
    return project, shown


def arguments(shown: dict[str, Any], *more: str) -> list[str]:
    return ["fork", shown["run_id"], "--at", "rl@2", *more, "--json"]


def stage(shown: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in shown["stages"] if one["name"] == name)
    return found


def history(shown: dict[str, Any]) -> list[dict[str, Any]]:
    path = Path(stage(shown, "rl")["outputs"]["metrics"]["uri"]) / "history.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


def kill_in_the_stage(project: Project, command: list[str], name: str, seconds: float) -> bool:
    """Start a fork, let its rl begin, and SIGKILL all of it after some time; return whether it was still going on."""

    def attempts() -> list[Path]:
        return list(Path(project.store).glob(f"ledger/{name}-*/attempts/rl.*"))

    before, since = len(attempts()), time.monotonic()
    process = project.start(*command)
    while len(attempts()) == before and process.poll() is None:
        assert time.monotonic() < since + LIMIT_SECONDS, "rl never began"
        time.sleep(0.02)
    try:
        process.communicate(timeout=seconds)
        return False
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return True


def test_a_fork_without_a_change_ends_in_the_same_bytes_whenever_it_is_killed(parent: Finished) -> None:
    project, straight = parent
    command, chance = arguments(straight, "--name", "same"), random.Random(7)
    for _ in range(DEFAULT_KILLS):
        kill_in_the_stage(project, command, "same", chance.uniform(0, 4))
    shown = json.loads(project.call(*command))
    assert shown["status"] == "succeeded"
    assert digests(shown) == digests(straight)
    assert history(shown) == history(straight)
    assert stage(shown, "rl")["fork"]["run_id"] == straight["run_id"]
    assert {name for name, cache in caches(shown).items() if cache == "miss"} == {"rl"}, "all else is shared"
    assert stage(shown, "rl")["cost"]["saved"]["cpu_hours"] > 0


def test_a_change_begins_at_the_fork(parent: Finished) -> None:
    project, straight = parent
    changed = ("--set", "stages.rl.with.optimizer.peak_learning_rate=0.01", "--name", "faster")
    shown = json.loads(project.call(*arguments(straight, *changed)))
    assert shown["run_id"].startswith("faster-")
    before, now = history(straight), history(shown)
    assert now[:2] == before[:2]
    assert [row["step"] for row in now] == [row["step"] for row in before]
    assert now[2] != before[2]
    assert digests(shown)["rl.model"] != digests(straight)["rl.model"]
    (pair,) = project.json("compare", straight["run_id"], "faster")["forks"]
    assert (pair["stage"], pair["step"], pair["rows_before"], pair["equal_before"]) == ("rl", 2, 2, 2)
    assert next(one for one in pair["metrics"] if one["metric"] == "learning_rate")["difference"] > 0
    page = Path(project.json("report", "faster")["page"]).read_text()
    assert "Before the fork all 2 rows of the history are equal" in page
    told = project.call("show", "faster")
    assert f"fork of run {straight['run_id']}, from rl@2 on; its steps before took" in told
    several = Path(project.json("report", straight["run_id"], "faster")["page"]).read_text()
    assert "From the fork on" in several


@pytest.mark.parametrize(
    ("at", "changes", "told"),
    [
        ("rl@3", (), "kept no checkpoint of step 3; the nearest is rl@2 (kept: 2, 4)"),
        ("sft@2", (), "stage 'sft' of run RUN kept no checkpoint at all: set `keep_partial: every N` on the stage"),
        ("rl@2", ("sft_steps=5",), "this changes stage 'sft' (parameter steps: 6 -> 5), which is before rl@2"),
        ("rl@2", ("prompt_rows=40",), "this changes stage 'prompts' ("),
        ("rl@2", ("stages.rl.with.optimizer.name=muon",), "the checkpoint holds the averages of adamw"),
        ("rl@2", ("stages.rl.with.dtype=bfloat16",), "dtype changes the model's shape"),
        ("rl@4", ("rl_steps=4",), "steps 4 end before it; give more than 4"),
        ("rl@2", ("stages.rl.with.method=ppo",), "the critic needs a value model, and the checkpoint holds none"),
        ("rl@2", ("stages.rl.with.labels=ignored", "stages.rl.seed=4"), "seed 0 became 4"),
    ],
)
def test_what_cannot_be_shared_is_told_in_one_line(
    shared: Finished, at: str, changes: tuple[str, ...], told: str
) -> None:
    project, straight = shared
    more = [part for change in changes for part in ("--set", change)]
    process = project.start("fork", straight["run_id"], "--at", at, *more)
    out, err = process.communicate(timeout=LIMIT_SECONDS)
    assert process.returncode == 2, out + err
    assert told.replace("RUN", straight["run_id"]) in err
    assert err.strip().count("\n") == 0, err


@pytest.fixture(scope="module")
def shared(finished: Finished, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """The same as `parent`, for tests that only look."""
    import shutil

    project, _ = finished
    folder = tmp_path_factory.mktemp("shared")
    shutil.copytree(project.folder / "untouched", folder / "store")
    project = replace(project, folder=folder, store=str(folder / "store"))
    return project, project.run(*KEEPING)


@pytest.mark.slow
def test_forks_killed_at_25_random_instants(parent: Finished) -> None:
    """Five forks, each killed five times while its stage works; other checkpoints make each of them work of its own."""
    project, straight = parent
    whole = stage(json.loads(project.call(*arguments(straight, "--name", "whole"))), "rl")["seconds"]
    chance, killed = random.Random(25), 0
    for number in range(NUM_FORKS):
        name = f"k{number}"
        minutes = f"stages.rl.with.checkpoint_minutes={1 + number}"
        command = arguments(straight, "--set", minutes, "--name", name)
        for _ in range(KILLS_EACH):
            killed += kill_in_the_stage(project, command, name, chance.uniform(0, whole / 2))
        shown = json.loads(project.call(*command))
        assert digests(shown) == digests(straight)
        assert history(shown) == history(straight)
        print(f"{name}: {killed} kills so far", flush=True)
    assert killed >= NUM_FORKS * KILLS_EACH // 2
