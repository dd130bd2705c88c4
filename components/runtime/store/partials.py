"""Partial checkpoints: manifests over content-addressed pieces, so that a save writes only what has changed.

    partial/<fingerprint>/<step>-<digest>/manifest.json    the files of a checkpoint; written last, it commits them
    partial/<fingerprint>/pieces/<sha256>                  bytes of files, shared by the checkpoints that hold them

Checkpoints of earlier versions have their files in <step>-<digest>/files/ instead and are read as before.
"""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from components.contract.artifacts import ArtifactType, FileEntry, Manifest, describe_folder
from components.contract.errors import CorruptArtifact, StoreUnavailable
from components.runtime.store.keys import DIGEST, check_name
from components.runtime.store.looks import DAY_SECONDS
from components.runtime.store.quarantine import Tell, set_aside
from components.runtime.store.trees import FILES, MANIFEST, read_manifest

if TYPE_CHECKING:
    from components.runtime.store.blobs import Blobs

PARTIAL, PIECES = "partial", "pieces"
STEP_DIGITS = 12
RENEW_SECONDS = 7 * DAY_SECONDS
"""A piece is written again after this time, so that a bucket's rule for forgotten checkpoints never takes it."""
IN_PIECES = "pieces"
"""Key of a manifest's metadata: its files are pieces."""

Later = Callable[[str], bool]
"""Whether the file at a path of a checkpoint is left for `fetch`."""
logger = logging.getLogger(__name__)


class Found(NamedTuple):
    """A checkpoint that was copied to a folder, verified."""

    step: int
    files: tuple[FileEntry, ...]
    """What a later `commit` may name, too."""
    key: str


class Partials:
    """The partial checkpoints of one job, as the holder of the job's lock sees them."""

    def __init__(self, blobs: Blobs, fingerprint: str) -> None:
        self._blobs = blobs
        self.root = f"{PARTIAL}/{check_name(fingerprint, 'fingerprint')}"
        self._known: dict[str, Manifest] = {}
        """Manifests of checkpoints that this object wrote or read."""
        self._stored: dict[str, float] = {}
        """SHA-256 of a piece that is stored -> since when (epoch seconds)."""
        self._waiting: dict[str, tuple[str, str, FileEntry]] = {}
        """Path of a file that `load` left for later -> its checkpoint, key and entry."""

    def put(self, folder: Path) -> list[FileEntry]:
        """Store the files of `folder`, which is consumed, as pieces; return their entries for `commit`.

        Bytes that a known checkpoint holds are not written again.
        """
        entries = describe_folder(folder, ArtifactType.CHECKPOINTS).files
        fresh = {entry.sha256: entry for entry in entries if not self.holds(entry)}
        staged = folder.with_name(f"{folder.name}.pieces")
        staged.mkdir()
        for digest, entry in fresh.items():
            (folder / entry.path).rename(staged / digest)
        pieces = [entry.model_copy(update={"path": digest}) for digest, entry in fresh.items()]
        self._blobs.upload(f"{self.root}/{PIECES}", staged, pieces)
        self._stored.update(dict.fromkeys(fresh, time.time()))
        shutil.rmtree(staged)
        return list(entries)

    def holds(self, entry: FileEntry) -> bool:
        """Return whether a file's bytes are stored, verified, and young enough for a rule that removes old ones."""
        return time.time() - self._stored.get(entry.sha256, 0.0) < RENEW_SECONDS

    def forget_all_but(self, entries: Iterable[FileEntry]) -> None:
        """Rely on these files only, where another process commits: it removes others at any time."""
        kept = {entry.sha256 for entry in entries}
        self._stored = {digest: since for digest, since in self._stored.items() if digest in kept}

    def commit(self, step: int, entries: Iterable[FileEntry]) -> None:
        """Make stored pieces the checkpoint of `step`, and keep the newest earlier one as a fallback.

        Later steps were unreadable (else the job would have resumed from them), so they are deleted, too.
        """
        files = tuple(sorted(entries, key=lambda entry: entry.path.encode()))
        manifest = Manifest(type=ArtifactType.CHECKPOINTS, files=files, metadata={"step": step, IN_PIECES: True})
        saved = f"{self.root}/{step:0{STEP_DIGITS}d}-{manifest.digest}"
        self._blobs.write(f"{saved}/{MANIFEST}", manifest.canonical())
        self._known[saved] = manifest
        self._collect(saved)

    def save(self, step: int, folder: Path) -> None:
        """Store `folder`, which is consumed, as the checkpoint of `step`."""
        self.commit(step, self.put(folder))

    def exist(self) -> bool:
        """Return whether a checkpoint was committed, whole or not."""
        return any(key.endswith(f"/{MANIFEST}") for key in self._keys())

    def load(
        self, into: Path, tell: Tell = logger.warning, *, later: Later | None = None, without: Collection[str] = ()
    ) -> Found | None:
        """Copy the newest whole and verified checkpoint into a new folder; None if there is none.

        A damaged checkpoint is reported, set aside and skipped for the one before it; keys `without` are skipped, too.
        """
        for key in sorted(trees_of(self._keys()) - {*without}, reverse=True):
            try:
                if found := self.take(key, into, later):
                    return found
            except CorruptArtifact as error:
                self.leave_out(key, str(error), tell)
        return None

    def take(self, key: str, into: Path, later: Later | None = None) -> Found | None:
        """Copy one checkpoint into a new folder; None if it was never committed.

        Raises CorruptArtifact for a damaged one; the folder is gone then.
        """
        step, _, digest = key.rpartition("/")[2].partition("-")
        manifest = read_manifest(self._blobs, key, digest)
        if manifest is None:
            return None
        into.mkdir(parents=True)
        waiting = [entry for entry in manifest.files if later is not None and later(entry.path)]
        wanted = [entry for entry in manifest.files if entry not in waiting]
        try:
            self._blobs.download([(key_of(key, manifest, entry), entry) for entry in wanted], into)
        except CorruptArtifact:
            shutil.rmtree(into)
            raise
        self._waiting = {entry.path: (key, key_of(key, manifest, entry), entry) for entry in waiting}
        if IN_PIECES not in manifest.metadata:
            return Found(int(step), (), key)
        self._known = {key: manifest}
        stored = {blob.key.rpartition("/")[2]: blob.stored for blob in self._blobs.list(f"{self.root}/{PIECES}/")}
        self._stored = {entry.sha256: stored.get(entry.sha256, 0.0) for entry in wanted}
        return Found(int(step), manifest.files, key)

    def leave_out(self, key: str, problem: str, tell: Tell) -> None:
        """Set a damaged checkpoint aside, and report it in one line."""
        step = int(key.rpartition("/")[2].partition("-")[0])
        set_aside(self._blobs, key, f"the partial checkpoint of step {step} is left out: {problem}", tell)

    def fetch(self, path: str, into: Path, tell: Tell = logger.warning) -> bool:
        """Copy a file that `load` left for later, verified; return whether the checkpoint has it.

        Raises StoreUnavailable for a damaged one: its checkpoint is set aside, and the next attempt takes another.
        """
        if path not in self._waiting:
            return False
        checkpoint, key, entry = self._waiting[path]
        try:
            self._blobs.download([(key, entry)], into)
        except CorruptArtifact as error:
            self.leave_out(checkpoint, str(error), tell)
            raise StoreUnavailable(f"{error}; run again: the stage goes on from the checkpoint before") from error
        del self._waiting[path]
        return True

    def drop(self) -> None:
        """Remove all checkpoints, manifests first."""
        keys = list(self._keys())
        self._blobs.delete(key for key in keys if key.endswith(f"/{MANIFEST}"))
        self._blobs.delete(key for key in keys if not key.endswith(f"/{MANIFEST}"))
        self._known, self._stored = {}, {}

    def _collect(self, saved: str) -> None:
        """Remove all checkpoints but the saved one and the newest before it, and pieces that neither holds."""
        keys = list(self._keys())
        earlier = sorted((tree for tree in trees_of(keys) if tree < saved), reverse=True)[:1]
        kept = {saved, *earlier}
        self._known = {tree: manifest for tree in kept if (manifest := self._manifest(tree))}
        held = {entry.sha256 for manifest in self._known.values() for entry in manifest.files}
        self._stored = {digest: since for digest, since in self._stored.items() if digest in held}
        stale = [key for key in keys if not is_piece(key) and "/".join(key.split("/")[:3]) not in kept]
        self._blobs.delete(sorted(stale, key=lambda key: not key.endswith(f"/{MANIFEST}")))
        self._blobs.delete(key for key in keys if is_piece(key) and key.rpartition("/")[2] not in held)

    def _manifest(self, tree: str) -> Manifest | None:
        if tree in self._known:
            return self._known[tree]
        try:
            return read_manifest(self._blobs, tree, tree.rpartition("-")[2])
        except CorruptArtifact:
            return None

    def _keys(self) -> Iterator[str]:
        return self._blobs.keys(f"{self.root}/")


def trees_of(keys: Iterable[str]) -> set[str]:
    """Return the prefixes of the checkpoints, whole or not, among keys of any jobs."""
    return {"/".join(key.split("/")[:3]) for key in keys if not is_piece(key)}


def key_of(tree: str, manifest: Manifest, entry: FileEntry) -> str:
    """Return the key of a checkpoint's file."""
    if IN_PIECES in manifest.metadata:
        return f"{tree.rpartition('/')[0]}/{PIECES}/{entry.sha256}"
    return f"{tree}/{FILES}/{entry.path}"


def is_piece(key: str) -> bool:
    """Return whether a key is that of a piece."""
    parts = key.split("/")
    return len(parts) == 4 and parts[2] == PIECES and bool(DIGEST.match(parts[3]))
