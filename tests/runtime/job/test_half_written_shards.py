"""A checkpoint in shards whose one shard is missing, cut short, or of another step: one line, and the job goes on.

The job is a real one, sft under FSDP on two gloo ranks, killed with SIGKILL while it trains.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

import pytest

from components.contract.artifacts import Manifest
from components.contract.job import Job, Resources, UriRef
from components.runtime.ledger.records import save_job, stage_key
from components.runtime.store import open_store
from tests.stages.supervised_data import base_model, demonstrations_folder

pytestmark = pytest.mark.deepspeed

ROOT = Path(__file__).parents[3]
STEPS, EVERY, KILLED_AFTER = 80, 4, 4
SHARD = "stage/weights-00001.safetensors"
"""The second rank's part of a checkpoint."""
DAMAGES = ("missing", "cut short", "of another step")


class Checkpoint(NamedTuple):
    """A committed checkpoint below a folder that is a store."""

    step: int
    shard: Path
    """The file with the second rank's weights."""


def command(store: Path, inputs: Path) -> list[str]:
    """Write the job into the store; return the command that a container runs."""
    job = Job(
        run_id="r",
        recipe="shards",
        stage="sft",
        component="sft",
        inputs={name: [UriRef(uri=f"file:{inputs / name}")] for name in ("model", "dataset")},
        params={"steps": STEPS, "batch_size": 8, "checkpoint_every": EVERY},
        seed=0,
        store=str(store),
        resources=Resources(trainer="fsdp", processes=2),
    )
    save_job(open_store(str(store)), job)
    where = ["--store", str(store), "--run-id", "r", "--stage", "sft"]
    return [sys.executable, "-m", "components.runtime.job.process", *where]


def start(store: Path, inputs: Path, log: IO[str]) -> subprocess.Popen[str]:
    """Start the job in a session of its own, so that all its ranks can be killed together."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "POSTTRAIN_LINEAGE": "later"}
    return subprocess.Popen(
        command(store, inputs),
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=log,
        start_new_session=True,
    )


def events(job: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
    """Yield what the job says, as it says it."""
    assert job.stdout is not None
    return (json.loads(line) for line in job.stdout if line.startswith("{"))


def finished(store: Path, inputs: Path) -> list[dict[str, Any]]:
    """Run the job to its end; return what it said."""
    path = store.with_suffix(".log")
    with path.open("w") as log, start(store, inputs, log) as job:
        said = list(events(job))
    assert job.returncode == 0, path.read_text()[-3000:]
    return said


def model(store: Path) -> str:
    """Return the digest of the model that the job made."""
    entry = open_store(str(store)).get(stage_key("r", "sft"))
    assert entry is not None
    return str(entry["outputs"]["model"]["digest"])


def checkpoints(store: Path) -> list[Checkpoint]:
    """Return the committed checkpoints, newest first."""
    found = []
    for path in sorted((store / "partial").glob("*/*/manifest.json"), reverse=True):
        manifest = Manifest.model_validate_json(path.read_text())
        (digest,) = [entry.sha256 for entry in manifest.files if entry.path == SHARD]
        found.append(Checkpoint(int(path.parent.name.partition("-")[0]), path.parents[1] / "pieces" / digest))
    return found


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a small model and its demonstrations."""
    folder = tmp_path_factory.mktemp("inputs")
    base_model(folder / "model")
    demonstrations_folder(folder / "dataset")
    return folder


@pytest.fixture(scope="module")
def killed(inputs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the store of a job that was killed with two committed checkpoints."""
    store = tmp_path_factory.mktemp("killed") / "store"
    path = store.with_suffix(".log")
    with path.open("w") as log, start(store, inputs, log) as job:
        committed = (said["step"] for said in events(job) if said["event"] == "checkpoint")
        assert any(step > KILLED_AFTER for step in committed), path.read_text()[-3000:]
        os.killpg(job.pid, signal.SIGKILL)
    assert job.returncode == -signal.SIGKILL
    assert len(checkpoints(store)) >= 2  # three, if it was killed before it removed the oldest
    return store


@pytest.fixture(scope="module")
def straight(inputs: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the digest of the model of a job that nobody killed."""
    store = tmp_path_factory.mktemp("straight") / "store"
    finished(store, inputs)
    return model(store)


def damage(kind: str, newest: Checkpoint, before: Checkpoint) -> None:
    """Damage the second rank's shard of the newest checkpoint."""
    newest.shard.chmod(0o644)
    if kind == "missing":
        newest.shard.unlink()
    elif kind == "cut short":
        newest.shard.write_bytes(newest.shard.read_bytes()[:-100])
    else:
        assert newest.shard.stat().st_size == before.shard.stat().st_size  # its size tells nothing
        shutil.copyfile(before.shard, newest.shard)


@pytest.mark.parametrize("kind", DAMAGES)
def test_the_same_command_goes_on_from_the_last_whole_checkpoint(
    kind: str, killed: Path, inputs: Path, straight: str, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    shutil.copytree(killed, store)
    newest, before, *_ = checkpoints(store)
    damage(kind, newest, before)
    said = finished(store, inputs)
    (told,) = [event["text"] for event in said if event["event"] == "warning" and "checkpoint" in event["text"]]
    assert f"the partial checkpoint of step {newest.step} is left out: " in told
    assert SHARD in told and "\n" not in told
    (started,) = [event for event in said if event["event"] == "started"]
    assert started["resumed_from"] == before.step
    assert model(store) == straight  # to the last bit that of the job that nobody killed
