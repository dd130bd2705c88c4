"""Partial checkpoints: manifests over content-addressed pieces, so that a save writes only what has changed.

    partial/<fingerprint>/<step>-<digest>/manifest.json    the files of a checkpoint; written last, it commits them
    partial/<fingerprint>/pieces/<sha256>                  bytes of files, shared by the checkpoints that hold them

Checkpoints of earlier versions have their files in <step>-<digest>/files/ instead and are read as before.
"""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from components.contract.artifacts import ArtifactType, FileEntry, Manifest, describe_folder
from components.contract.errors import CorruptArtifact, StoreUnavailable
from components.runtime.store.keys import DIGEST, check_name
from components.runtime.store.looks import DAY_SECONDS, look_at
from components.runtime.store.quarantine import Tell, set_aside
from components.runtime.store.trees import FILES, MANIFEST, read_manifest

if TYPE_CHECKING:
    from components.runtime.store.blobs import Blob, Blobs

PARTIAL, PIECES = "partial", "pieces"
STEP_DIGITS = 12
RENEW_SECONDS = 7 * DAY_SECONDS
"""A piece is written again after this time, so that a bucket's rule for forgotten checkpoints never takes it."""
IN_PIECES = "pieces"
"""Key of a manifest's metadata: its files are pieces."""

logger = logging.getLogger(__name__)


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

    def load(
        self, into: Path, tell: Tell = logger.warning, *, later: Callable[[str], bool] = lambda _: False
    ) -> tuple[int, tuple[FileEntry, ...]] | None:
        """Copy the newest whole and verified checkpoint into a new folder; None if there is none.

        Returns its step and the files that a later `commit` may name, too. Files whose path is `later` are left for
        `fetch`. A damaged checkpoint is reported, set aside and skipped for the one before it.
        """
        for tree in sorted(trees_of(self._keys()), reverse=True):
            step, _, digest = tree.rpartition("/")[2].partition("-")
            try:
                manifest = read_manifest(self._blobs, tree, digest)
                if manifest is None:
                    continue
                into.mkdir(parents=True)
                wanted = [entry for entry in manifest.files if not later(entry.path)]
                self._blobs.download([(key_of(tree, manifest, entry), entry) for entry in wanted], into)
                waiting = [entry for entry in manifest.files if later(entry.path)]
                self._waiting = {entry.path: (tree, key_of(tree, manifest, entry), entry) for entry in waiting}
                if IN_PIECES not in manifest.metadata:
                    return int(step), ()
                self._known[tree] = manifest
                stored = {
                    blob.key.rpartition("/")[2]: blob.stored for blob in self._blobs.list(f"{self.root}/{PIECES}/")
                }
                self._stored = {entry.sha256: stored.get(entry.sha256, 0.0) for entry in wanted}
                return int(step), manifest.files
            except CorruptArtifact as error:
                shutil.rmtree(into, ignore_errors=True)
                reason = f"the partial checkpoint of step {int(step)} is left out: {error}"
                set_aside(self._blobs, tree, reason, tell)
        return None

    def fetch(self, path: str, into: Path, tell: Tell = logger.warning) -> bool:
        """Copy a file that `load` left for later, verified; return whether the checkpoint has it.

        Raises StoreUnavailable for a damaged one: its checkpoint is set aside, and the next attempt takes another.
        """
        if path not in self._waiting:
            return False
        tree, key, entry = self._waiting[path]
        try:
            self._blobs.download([(key, entry)], into)
        except CorruptArtifact as error:
            reason = f"the partial checkpoint at {tree} is left out: {error}"
            set_aside(self._blobs, tree, reason, tell)
            raise StoreUnavailable(f"{reason}; run again: the stage goes on from the checkpoint before") from error
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
        stale = [key for key in keys if not _is_piece(key) and "/".join(key.split("/")[:3]) not in kept]
        self._blobs.delete(sorted(stale, key=lambda key: not key.endswith(f"/{MANIFEST}")))
        self._blobs.delete(key for key in keys if _is_piece(key) and key.rpartition("/")[2] not in held)

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
    return {"/".join(key.split("/")[:3]) for key in keys if not _is_piece(key)}


def key_of(tree: str, manifest: Manifest, entry: FileEntry) -> str:
    """Return the key of a checkpoint's file."""
    if IN_PIECES in manifest.metadata:
        return f"{tree.rpartition('/')[0]}/{PIECES}/{entry.sha256}"
    return f"{tree}/{FILES}/{entry.path}"


def check_partial(blobs: Blobs, tree: str, digest: str) -> tuple[int | None, str | None]:
    """Read every byte of a checkpoint; return their number, None if it is not whole, and the first damage."""
    try:
        manifest = read_manifest(blobs, tree, digest)
    except CorruptArtifact as error:
        return None, str(error).removeprefix(f"{blobs.address(tree)}: ").partition(". ")[0]
    if manifest is None:
        return None, None
    if IN_PIECES not in manifest.metadata:
        return manifest.size, look_at(blobs, tree, digest, every_byte=True).damage
    for entry in manifest.files:
        found = blobs.hash(key_of(tree, manifest, entry))
        if found is None:
            return manifest.size, f"{entry.path} is missing"
        if found != (entry.size, entry.sha256):
            return manifest.size, f"{entry.path} has SHA-256 {found[1][:12]}... instead of {entry.sha256[:12]}..."
    return manifest.size, None


def loose_pieces(blobs: Blobs, found: Sequence[Blob], older_than: float) -> dict[str, list[Blob]]:
    """Return fingerprint -> pieces that no checkpoint holds and that were stored before `older_than` (epoch)."""
    loose: dict[str, list[Blob]] = {}
    held: dict[str, set[str]] = {}
    for blob in found:
        if not _is_piece(blob.key) or blob.stored >= older_than:
            continue
        mark = blob.key.split("/")[1]
        if mark not in held:
            held[mark] = _held(blobs, trees_of(other.key for other in found if other.key.split("/")[1] == mark))
        if blob.key.rpartition("/")[2] not in held[mark]:
            loose.setdefault(mark, []).append(blob)
    return loose


def _held(blobs: Blobs, trees: Iterable[str]) -> set[str]:
    held: set[str] = set()
    for tree in trees:
        try:
            manifest = read_manifest(blobs, tree, tree.rpartition("-")[2])
        except CorruptArtifact:
            continue
        held.update(entry.sha256 for entry in (manifest.files if manifest else ()))
    return held


def _is_piece(key: str) -> bool:
    parts = key.split("/")
    return len(parts) == 4 and parts[2] == PIECES and bool(DIGEST.match(parts[3]))
