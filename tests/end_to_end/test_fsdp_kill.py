"""Ranks that hold shards are killed, first one and then all: the run ends in the bytes of one that did not stop."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.command_line import Project, digests
from tests.support.ranks import ranks_of

pytestmark = [pytest.mark.deepspeed, pytest.mark.timeout(1500)]

RECIPES = Path(__file__).with_name("recipes")
SECONDS = 700.0


def checkpoints(project: Project) -> set[Path]:
    """Return the checkpoints that the project keeps."""
    return {*Path(project.store).glob("partial/*/*/manifest.json")}


def wait_for_a_rank_with_a_new_checkpoint(project: Project, process: subprocess.Popen[str], before: set[Path]) -> int:
    """Return the second rank of the stage that has just kept a checkpoint."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        if checkpoints(project) - before and (found := ranks_of(project, 1)):
            return found[0]
        time.sleep(0.02)
    pytest.fail("no rank kept a checkpoint")


@pytest.mark.parametrize("name", ["fsdp-micro", "tensor-micro"])
def test_killed_ranks_change_nothing(tmp_path: Path, name: str) -> None:
    recipe = RECIPES / f"{name}.yaml"
    arguments = ["run", str(recipe), "--jobs", "1"]
    straight, killed = (Project(tmp_path / name, str(tmp_path / name / "store")) for name in ("straight", "killed"))
    for project in (straight, killed):
        project.folder.mkdir()
    expected = straight.run(recipe=recipe)
    one = killed.start(*arguments)
    os.kill(wait_for_a_rank_with_a_new_checkpoint(killed, one, set()), signal.SIGKILL)
    wait_for_a_rank_with_a_new_checkpoint(killed, one, checkpoints(killed))
    os.killpg(one.pid, signal.SIGKILL)
    printed = "".join(one.communicate())
    assert "rank 1 of 2 was killed by SIGKILL" in printed
    again = killed.call(*arguments)
    assert "resumed from step" in printed + again
    assert digests(killed.json("show", "latest")) == digests(expected)
