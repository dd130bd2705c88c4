"""A real RL stage that draws ahead moves in the middle: the bytes of a straight run, and people are told."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from components.runtime.checkpoints.moves import asked, fingerprints_begun
from components.runtime.store import open_store
from tests.support.command_line import LIMIT_SECONDS, MICRO, Project, digests

Finished = tuple[Project, dict[str, Any]]
LONGER = ("--set", "rl_steps=48", "--set", "stages.rl.with.rollout=group_ahead")


def test_a_stage_in_the_middle_of_its_steps_moves(copied: Finished) -> None:
    project, shown = copied
    apart = replace(project, store=f"{project.store}-straight")
    straight = apart.run(*LONGER)
    process = project.start("run", str(MICRO), *LONGER)
    store, since = open_store(project.store), time.monotonic()

    def at_work() -> str | None:
        """Return the new run once its rl has begun."""
        begun = (run for run in store.names("ledger/") if "rl" in fingerprints_begun(store, run))
        return next((run for run in begun if run != shown["run_id"]), None)

    while (run := at_work()) is None:
        assert process.poll() is None and time.monotonic() < since + LIMIT_SECONDS
        time.sleep(0.02)
    moved = project.json("move", run, "--to", "local")
    out, err = process.communicate(timeout=LIMIT_SECONDS)
    assert process.returncode == 130, out + err
    assert f"run     {run}: stopped" in out and "move    to engine local" in out
    record = asked(store, run)
    assert record is not None and record["as"] == moved["run_id"]
    assert [state["stage"] for state in record["states"]] == ["rl"] and 0 < record["states"][0]["step"] < 48
    assert moved["status"] == "succeeded" and moved["moved"] == run
    assert digests(moved) == digests(straight)
    assert f"move from run {run}: rl@{record['states'][0]['step']}" in project.call("show", moved["run_id"])
    again = project.start("move", run, "--to", "local")
    assert f"has moved: the run continues on engine local, as run {moved['run_id']}" in again.communicate()[1]


def test_what_cannot_move_is_told(copied: Finished) -> None:
    project, shown = copied
    process = project.start("move", shown["run_id"], "--to", "local")
    _, err = process.communicate(timeout=LIMIT_SECONDS)
    assert process.returncode == 2
    assert err == f"posttrain: move: run {shown['run_id']} has succeeded: nothing of it is left to do\n"
    with open_store(project.store).lock(f"move-{shown['run_id']}", wait_seconds=1):
        process = project.start("move", shown["run_id"], "--to", "local")
        assert f"run {shown['run_id']} is being moved already" in process.communicate(timeout=LIMIT_SECONDS)[1]
    process = project.start("move", "nothing", "--to", "local")
    _, err = process.communicate(timeout=LIMIT_SECONDS)
    assert process.returncode == 2 and "nothing" in err and "Traceback" not in err
