"""Partial checkpoints of a running stage: a snapshot is taken at once, and written while the stage goes on.

A checkpoint holds what the stage gave (stage/), its outputs so far (outputs/), its logs (logs/<name>/) and the
launcher's own state (state.json). Files that did not change since the last one are not written again.
"""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

from components.contract.artifacts import FileEntry
from components.contract.context import Finish
from components.contract.errors import StoreUnavailable
from components.runtime.checkpoints.agreement import newest_for_all
from components.runtime.checkpoints.changes import Changes, link_or_copy
from components.runtime.checkpoints.row_log import RowLog
from components.runtime.checkpoints.shards import Shards
from components.runtime.checkpoints.termination import Termination
from components.runtime.store.partials import Partials
from components.runtime.store.quarantine import Tell

ADVICE = "Check free space and permissions, then run again: the stage goes on from its last checkpoint."
SHARE, PACE_SECONDS = 0.02, 10.0
"""Of a stage's time, what checkpoints may take where nobody says when; and the least time between two of them."""
RANK_PART = re.compile(r"stage/[^/]*-(\d{5})\.safetensors")
"""Files that one rank of several gave (components/modeling/training/training_state.py)."""
STATE, STAGE, OUTPUTS, LOGS = "state.json", "stage", "outputs", "logs"


class Checkpoints:
    """Restores the newest checkpoint and writes further ones, one at a time, on a thread of its own."""

    def __init__(self, partials: Partials, scratch: Path, outputs: Path) -> None:
        """`scratch` is a folder of this attempt; `outputs` is what the stage writes its outputs to."""
        self._partials, self._scratch, self._outputs = partials, scratch, outputs
        self._logs: dict[str, RowLog] = {}
        self._entries: dict[str, FileEntry] = {}
        """Path -> file of the newest checkpoint, which later ones may share."""
        self._changes = Changes(outputs)
        self._writer: Thread | None = None
        self._error: Exception | None = None
        self.shards: Shards | None = None
        """How the ranks' parts come together, where there are several."""
        self._last_part: int | None = None
        self.restored: str | None = None
        """Digest of the checkpoint that was restored."""
        self._termination = Termination()
        self._began = time.monotonic()
        self.seconds = 0.0
        """What the last checkpoint took from the stage: its snapshot, and the writer's CPU time."""

    @property
    def resumed(self) -> Path:
        """Return the folder with what the stage gave to the checkpoint that was restored."""
        return self._scratch / "resume" / STAGE

    def part(self, name: str, tell: Tell) -> Path:
        """Return where a file of the restored checkpoint that the stage gave is, if it has it; fetch it if need be."""
        path = self.resumed / name
        if not path.exists() and self._partials.fetch(f"{STAGE}/{name}", self.resumed.parent, tell):
            path.chmod(0o644)
        return path

    def restore(self, tell: Tell, *, own_parts: bool = False) -> tuple[int, dict[str, Any]] | None:
        """Restore outputs and logs from the newest whole checkpoint; return its step and state, None without one.

        Ranks that have `shards` restore the same one. With `own_parts`, other ranks' parts of it are left to `part`.
        """
        folder = self._scratch / "resume"
        if self.shards is None:
            found = self._partials.load(folder, tell)
        else:
            later = partial(_is_of_another, self.shards) if own_parts else None
            found = newest_for_all(self._partials, folder, self.shards, later, tell)
        if found is None:
            return None
        for part in (STAGE, OUTPUTS):  # artifacts hold only files, so an empty folder is missing
            (folder / part).mkdir(exist_ok=True)
        for path in folder.rglob("*"):
            path.chmod(0o755 if path.is_dir() else 0o644)
        self._entries = {entry.path: entry for entry in found.files}
        self.restored = found.key.rpartition("-")[2]
        shutil.copytree(folder / OUTPUTS, self._outputs, dirs_exist_ok=True)
        if (folder / LOGS).is_dir():
            (folder / LOGS).rename(self._scratch / LOGS)
        state: dict[str, Any] = json.loads((folder / STATE).read_text())
        return found.step, state

    def log(self, name: str) -> RowLog:
        """Return an append-only log of the stage; the next checkpoint holds its rows."""
        if name not in self._logs:
            self._logs[name] = RowLog(self._scratch / LOGS / name)
        return self._logs[name]

    def begin(
        self, step: int, write: Callable[[Path], Finish | None], state: dict[str, Any], done: Callable[[], None]
    ) -> None:
        """Take a snapshot and begin to write it as the checkpoint of `step`; wait for the one before it.

        `done` is called by the writer when the checkpoint is committed. A failure of the writer is raised by `check`.
        """
        draft, finish = self._snapshot(step, write)
        with _told(step):
            stored = {path.partition("/")[2] for path in self._entries if self._keeps(path, OUTPUTS)}
            kept = [f"{OUTPUTS}/{path}" for path in self._changes.copy(draft / OUTPUTS, stored)]
            (draft / STATE).write_text(json.dumps(state))
        cuts = {name: log.cut() for name, log in self._logs.items()}

        def store() -> None:
            finish()
            for name, cut in cuts.items():
                kept.extend(self._lay_out(f"{LOGS}/{name}", cut(), draft))
            own = [*(self._entries[path] for path in kept), *self._partials.put(draft)]
            others = self.shards.gather(step) if self.shards else []
            entries = {entry.path: entry for entry in [*others, *own]}
            self._partials.commit(step, entries.values())
            self._entries = entries
            if self.shards:
                self.shards.commit(step)
            done()

        self._start(step, draft, store)
        if self._termination.asked:
            self.wait()
            self._termination.end()

    def begin_part(self, step: int, write: Callable[[Path], Finish | None]) -> None:
        """Take a snapshot on a rank other than the first, and begin to store it as a part of its checkpoint."""
        draft, finish = self._snapshot(step, write)
        before, self._last_part = self._last_part, step

        def store() -> None:
            assert self.shards is not None
            try:
                finish()
                if before is not None:
                    self.shards.wait_for(before)
                entries = self._partials.put(draft)
                self._partials.forget_all_but(entries)
                self.shards.tell(step, entries)
            except Exception as error:
                self.shards.tell(step, (), str(error))
                raise

        self._start(step, draft, store)
        if self._termination.asked and self.shards is not None:
            self.wait()
            self.shards.wait_for(step)
            self._termination.end()

    def _snapshot(self, step: int, write: Callable[[Path], Finish | None]) -> tuple[Path, Finish]:
        """Wait for the checkpoint before, and call `write`; return the folder and what fills it."""
        self.wait()
        self._began = time.monotonic()
        draft = self._scratch / "partial"
        with _told(step):
            (draft / STAGE).mkdir(parents=True)
        return draft, write(draft / STAGE) or (lambda: None)

    def _start(self, step: int, draft: Path, store: Callable[[], None]) -> None:
        """Run `store` on a thread of its own; `check` raises its failure."""
        snapshot_seconds = time.monotonic() - self._began

        def run() -> None:
            try:
                with _told(step):
                    store()
            except Exception as error:  # a thread: it is raised where the stage runs
                self._error = error
            finally:
                self.seconds = snapshot_seconds + time.thread_time()
                shutil.rmtree(draft, ignore_errors=True)

        self._writer = Thread(target=run, name=f"checkpoint of step {step}", daemon=True)
        self._termination.end_after(self._writer)
        self._writer.start()

    def is_due(self, seconds: float | None) -> bool:
        """Return whether the last checkpoint began `seconds` ago, and none is being written; never waits.

        None: so long ago that its cost is at most `SHARE` of that time, and at least `PACE_SECONDS`. One is always due
        in a process that was told to end.
        """
        if self._writer is not None and self._writer.is_alive():
            return False
        if self._termination.asked:
            return True
        wanted = max(PACE_SECONDS, self.seconds / SHARE) if seconds is None else seconds
        return time.monotonic() - self._began >= wanted

    def check(self) -> None:
        """Raise the failure of the last checkpoint, if it failed."""
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def wait(self) -> None:
        """Wait until no checkpoint is being written; raise the failure of the last one."""
        self.join()
        self.check()

    def join(self) -> None:
        """Wait until no checkpoint is being written."""
        if self._writer is not None:
            self._writer.join()
            self._writer = None

    def _keeps(self, path: str, part: str) -> bool:
        """Return whether the next checkpoint may name a file of the last one."""
        entry = self._entries.get(path)
        return entry is not None and path.startswith(f"{part}/") and self._partials.holds(entry)

    def _lay_out(self, folder: str, segments: list[Path], draft: Path) -> list[str]:
        """Link new segments of a log into the draft; return the paths of those that the last checkpoint holds."""
        kept = []
        for segment in segments:
            path = f"{folder}/{segment.name}"
            if self._keeps(path, LOGS):
                kept.append(path)
            else:
                link_or_copy(segment, draft / path)
        return kept


def _is_of_another(shards: Shards, path: str) -> bool:
    """Return whether a file is the part of another rank."""
    part = RANK_PART.fullmatch(path)
    return part is not None and int(part[1]) % shards.world != shards.rank


@contextmanager
def _told(step: int) -> Iterator[None]:
    """Say of which checkpoint an error is, and what to do, if it is the disk's and not yet told."""
    try:
        yield
    except OSError as error:
        raise StoreUnavailable(f"the checkpoint of step {step} cannot be written: {error}. {ADVICE}") from error
