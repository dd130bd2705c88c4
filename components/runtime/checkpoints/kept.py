"""Partial checkpoints that outlive their stage, so that it can be forked there.

    kept/<fingerprint>/<step>.json      which artifact a checkpoint is, of which work, and how long that took so far

A kept checkpoint is an artifact with the files of the partial checkpoint of its step. It is verified, cached and
collected like all artifacts; a bucket's rule that removes forgotten partial checkpoints never takes it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from components.contract.artifacts import ArtifactType
from components.runtime.checkpoints.checkpoints import STAGE, STATE
from components.runtime.store.keys import RECORD_SUFFIX, check_name
from components.runtime.store.partials import STEP_DIGITS

if TYPE_CHECKING:
    from components.contract.job import Job
    from components.runtime.ledger.fingerprint import Fingerprint
    from components.runtime.store import Store
    from components.runtime.store.quarantine import Tell

KEPT = "kept"


class Kept(NamedTuple):
    """A kept checkpoint, as its record tells."""

    fingerprint: str
    step: int
    digest: str
    seconds: float
    """How long the work took up to it."""
    parts: Mapping[str, Any]
    """Of the fingerprint."""
    run_id: str
    stage: str


class Keeper:
    """Keeps every n-th checkpoint of one job; it is asked on the first rank alone."""

    def __init__(self, store: Store, job: Job, mark: Fingerprint) -> None:
        self._store, self._job, self._mark = store, job, mark

    def wants(self, step: int) -> bool:
        """Return whether the checkpoint of a step is kept."""
        every = self._job.keep_partial
        return every is not None and step > 0 and step % every == 0

    def keep(self, step: int, into: Path, tell: Tell) -> None:
        """Keep the newest partial checkpoint, which is of `step`, unless it is kept; `into` is a folder to be made.

        A kill before the record leaves the partial checkpoint, and the next attempt keeps it.
        """
        key = kept_key(self._mark.digest, step)
        known = self._store.recover(key)
        if known is not None and self._store.use(known["digest"], tell):
            return
        found = self._store.partials(self._mark.digest).load(into, tell)
        if found is None or found.step != step:  # it is damaged, and was set aside
            shutil.rmtree(into, ignore_errors=True)
            return
        seconds = json.loads((into / STATE).read_text()).get("seconds", 0.0)
        manifest = self._store.commit(ArtifactType.CHECKPOINTS, into, {"step": step, "partial": True})
        shutil.rmtree(into, ignore_errors=True)
        record = Kept(
            self._mark.digest, step, manifest.digest, seconds, self._mark.parts, self._job.run_id, self._job.stage
        )
        self._store.put(key, record._asdict(), overwrite=True)


def kept_key(fingerprint: str, step: int) -> str:
    """Return the key of the record of a kept checkpoint."""
    return f"{kept_prefix(fingerprint)}{step:0{STEP_DIGITS}d}{RECORD_SUFFIX}"


def kept_prefix(fingerprint: str) -> str:
    """Return what the keys of a job's kept checkpoints begin with."""
    return f"{KEPT}/{check_name(fingerprint, 'fingerprint')}/"


def kept_steps(store: Store, fingerprint: str) -> list[int]:
    """Return the steps of a job's kept checkpoints, in order."""
    keys = store.keys(kept_prefix(fingerprint))
    return [int(key.rpartition("/")[2].removesuffix(RECORD_SUFFIX)) for key in keys]


def find_kept(store: Store, fingerprint: str, step: int) -> Kept | None:
    """Return the kept checkpoint of a step, or None; a damaged record counts as none."""
    record = store.recover(kept_key(fingerprint, step))
    return None if record is None else Kept(**record)


def copy_kept(store: Store, kept: Kept, into: Path, tell: Tell) -> None:
    """Copy a kept checkpoint to a new folder, which a job may make its partial checkpoint; `tell` is told of damage."""
    shutil.copytree(store.fetch_or_set_aside(kept.digest, tell), into)
    for path in into.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)


def files_of(store: Store, kept: Kept) -> frozenset[str]:
    """Return the names of the files that the component gave to a kept checkpoint."""
    paths = (entry.path.partition("/") for entry in store.manifest(kept.digest).files)
    return frozenset(name for part, _, name in paths if part == STAGE)
