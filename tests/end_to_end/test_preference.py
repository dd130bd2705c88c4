"""The recipe dpo through the command: another loss, a kill through the launcher, and what it teaches."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.command_line import LIMIT_SECONDS, Project, caches, digests

SIZES = (
    *("base_steps=4", "sft_steps=2", "dpo_steps=60", "corpus_rows=120", "demo_rows=64", "prompt_rows=24"),
    *("num_samples=4", "eval_rows=8", "eval_samples=2", "defaults.with.evaluate.bootstrap_samples=100"),
    "stages.base.with.architecture={width: 16, layers: 1, heads: 2, mlp_width: 24}",
    # the start writes nothing right
    *(f"stages.{name}.with.programs=[{{name: careless, error_rate: 0.5}}]" for name in ("pairs", "heldout-pairs")),
    "stages.preference.with.batch_size=4",
    "stages.preference.with.checkpoint_every=2",
)
MICRO = [word for size in SIZES for word in ("--set", size)]


def has_checkpoint(store: Path) -> bool:
    """Return whether a checkpoint of the preference stage is there, which alone keeps what the reference says."""
    with suppress(OSError):  # one may be replaced as it is read
        return any("tensors-reference" in path.read_text() for path in store.glob("partial/*/*/manifest.json"))
    return False


@pytest.mark.slow  # four starts of a run; the stage's own tests kill it, too
def test_another_loss_runs_its_stage_alone_and_a_killed_one_ends_with_the_same_bytes(tmp_path: Path) -> None:
    straight = Project(tmp_path, str(tmp_path / "store"))
    shown = straight.run(*MICRO, recipe="dpo")
    metrics = {stage["name"]: stage["metrics"] for stage in shown["stages"]}
    assert metrics["preference"]["num_examples"] == metrics["pairs"]["num_rows"] > 0
    assert {"validation_accuracy", "chosen_longer", "margin"} <= metrics["preference"].keys()
    other = straight.run(*MICRO, "--set", "loss=ipo", recipe="dpo")
    assert {name for name, cache in caches(other).items() if cache == "miss"} == {"preference", "evaluate"}

    (tmp_path / "killed").mkdir()
    killed = Project(tmp_path / "killed", str(tmp_path / "killed" / "store"))
    process = killed.start("run", "dpo", *MICRO)
    deadline = time.monotonic() + LIMIT_SECONDS
    while not has_checkpoint(Path(killed.store)):
        assert process.poll() is None and time.monotonic() < deadline, "no checkpoint of it"
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert digests(killed.run(*MICRO, recipe="dpo")) == digests(shown)


@pytest.mark.slow
def test_a_model_learns_sums_from_its_own_pairs(tmp_path: Path) -> None:
    shown = Project(tmp_path, str(tmp_path / "store")).run("--jobs", "1", recipe="dpo")
    metrics = {stage["name"]: stage["metrics"] for stage in shown["stages"]}
    assert metrics["evaluate"]["pass_at_1_sums"] > metrics["eval-start"]["pass_at_1_sums"] + 0.02
    assert metrics["preference"]["validation_accuracy"] > 0.5
