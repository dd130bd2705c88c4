"""SFT and RL on conversations of two turns, from the command line: killed and resumed, and on other backends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from components.contract.messages import conversation_of
from tests.support.command_line import Project, digests

RECIPE = Path(__file__).parent / "recipes" / "conversations-micro.yaml"
SECONDS = 600.0
ZERO_2 = {"trainer": "deepspeed", "zero_stage": 2, "processes": 2}


def run(folder: Path, *arguments: str) -> dict[str, Any]:
    """Run the recipe in a project of its own."""
    folder.mkdir()
    return Project(folder, str(folder / "store")).run(*arguments, recipe=RECIPE)


def output(shown: dict[str, Any], stage: str, port: str) -> Path:
    """Return the folder of what a stage made."""
    stages = {found["name"]: found for found in shown["stages"]}
    return Path(stages[stage]["outputs"][port]["uri"])


def lines(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a JSON Lines file."""
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return run(tmp_path_factory.mktemp("conversations") / "straight")


def kill_after_a_checkpoint(project: Project, process: subprocess.Popen[str], *, beyond: set[Path]) -> set[Path]:
    """SIGKILL the run once the rl stage has kept a checkpoint that is not in `beyond`; return those there are."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        found = {*Path(project.store).glob("partial/*/*/manifest.json")} - beyond  # it comes last: the rest is there
        if found:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return found | beyond
        time.sleep(0.02)
    pytest.fail("the rl stage never kept a checkpoint")


def test_a_killed_run_ends_in_the_same_bytes(straight: dict[str, Any], tmp_path: Path) -> None:
    project, known = Project(tmp_path, str(tmp_path / "store")), set[Path]()
    for _ in range(2):
        known = kill_after_a_checkpoint(project, project.start("run", str(RECIPE), "--json"), beyond=known)
    assert "resumed from step" in project.call("run", str(RECIPE))
    shown = project.json("show", "latest")
    assert shown["status"] == "succeeded"
    assert digests(shown) == digests(straight)


def test_every_turn_is_kept_and_trained_on(straight: dict[str, Any]) -> None:
    history = lines(output(straight, "rl", "metrics") / "history.jsonl")
    assert len(history) == 6 and any(row["num_updates"] for row in history)
    assert all(row["update_kl_k3"] < 1e-4 for row in history if row["num_updates"]), "drawn and learned on agree"
    assert max(row["length_max"] for row in history) > 6, "the policy's tokens of both turns count, of 6 at most each"
    rows = lines(next(output(straight, "rl", "rollouts").glob("*.jsonl")))
    assert rows and all(len(row["turns"]) == 1 for row in rows)
    for row in rows:
        roles = [message.role for message in conversation_of(row) or ()]
        assert roles == ["user", "assistant", "user", "assistant"]


def trained(shown: dict[str, Any]) -> list[dict[str, Any]]:
    history = lines(output(shown, "rl", "metrics") / "history.jsonl")
    assert len(history) == 6 and any(row["num_updates"] for row in history)
    return history


@pytest.mark.deepspeed
@pytest.mark.timeout(900)
def test_zero_2_on_two_processes_trains_on_conversations(straight: dict[str, Any], tmp_path: Path) -> None:
    """Ranks share rows, and the native sampler draws what one process would have drawn."""
    found = trained(run(tmp_path / "zero", "--set", f"stages.rl.backend={json.dumps(ZERO_2)}"))
    for own, other in zip(trained(straight)[:1], found[:1], strict=True):
        assert other["loss"] == pytest.approx(own["loss"], abs=1e-5)
        assert other["grad_norm"] == pytest.approx(own["grad_norm"], rel=1e-3)
        assert other["length_mean"] == own["length_mean"]


@pytest.mark.vllm
@pytest.mark.deepspeed
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("backend", [{}, ZERO_2], ids=["torch", "zero 2"])
def test_vllm_draws_conversations(backend: dict[str, Any], tmp_path: Path) -> None:
    """Needs POSTTRAIN_VLLM_PYTHON, as tests/rl/test_backends_learn.py does."""
    chosen = f"stages.rl.backend={json.dumps({'sampler': 'vllm', **backend})}"
    wide = "stages.base.with.architecture.heads=1"  # vLLM's attention on a CPU takes heads of 32 and more
    shown = run(tmp_path / "vllm", "--set", chosen, "--set", wide)
    assert max(row["sampler_gap_max"] for row in trained(shown)) < 1e-3
