"""RL with vLLM drawing ahead and DeepSpeed on two processes, killed and resumed, ends in the bytes of a straight run.

Needs POSTTRAIN_VLLM_PYTHON, as test_backends_learn.py does.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import MICRO, Project, digests
from tests.support.ranks import ranks_of

pytestmark = [pytest.mark.vllm, pytest.mark.deepspeed, pytest.mark.timeout(1500)]

BOTH = {
    "stages.rl.backend": {"sampler": "vllm", "trainer": "deepspeed", "zero_stage": 2, "processes": 2},
    "stages.rl.with.rollout": {"name": "group_ahead", "max_staleness": 1},
    "stages.rl.with.advantages": ["group_mean_std", "truncated_importance"],
}
ARGUMENTS = [
    "run",
    str(MICRO),
    "--jobs",
    "1",
    *(word for name, value in BOTH.items() for word in ("--set", f"{name}={json.dumps(value)}")),
]
SECONDS = 600.0


def finish(process: subprocess.Popen[str]) -> str:
    """Return what a run printed."""
    out, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, out + err
    return out


def kill_second_rank(project: Project, process: subprocess.Popen[str]) -> None:
    """SIGKILL the second rank once the stage has kept a checkpoint."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        if (found := ranks_of(project, 1)) and [*Path(project.store).glob("partial/*/*")]:
            os.kill(found[0], signal.SIGKILL)
            return
        time.sleep(0.05)
    pytest.fail("the stage never kept a checkpoint")


def history(shown: dict[str, Any]) -> list[dict[str, float]]:
    """Return the metrics of every step of the rl stage."""
    stage = next(stage for stage in shown["stages"] if stage["name"] == "rl")
    lines = (Path(stage["outputs"]["metrics"]["uri"]) / "history.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def test_a_killed_rank_changes_nothing(tmp_path: Path) -> None:
    straight, killed = (Project(tmp_path / name, str(tmp_path / name / "store")) for name in ("straight", "killed"))
    for project in (straight, killed):
        project.folder.mkdir()
    finish(straight.start(*ARGUMENTS))
    process = killed.start(*ARGUMENTS)
    kill_second_rank(killed, process)
    printed = finish(process)
    assert "rank 1 of 2 was killed by SIGKILL" in printed
    assert "resumed from step" in printed
    expected, found = (project.json("show", "latest") for project in (straight, killed))
    assert history(found) == history(expected)
    assert digests(found) == digests(expected)
    gaps = [row["sampler_gap_max"] for row in history(expected)]
    assert gaps[0] < 1e-3 < max(gaps[2:])  # later steps learn from what earlier weights drew
