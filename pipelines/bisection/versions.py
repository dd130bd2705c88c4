"""Versions of the code: those of two commits, or today's files, with any room of one taken from the other.

Two versions cannot be imported in one process, so each mixture is a folder of its own, in which another process runs.
The fingerprint of a stage has the code that it ran, so stages whose code is the same in two folders are shared.
"""

from __future__ import annotations

import hashlib
import io
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from components.contract.errors import InputError
from components.contract.terminal import visible_line
from components.runtime.system.code import ROOT
from pipelines.bisection.differences import CODE, Difference

FOLDERS = ("components", "pipelines", "infra")
"""What a checkout needs to run a recipe."""
REST = ("components/contract", "components/runtime", "components/pages", "pipelines", "infra")
"""Rooms that go together: what they share changes in step."""
POOLS = "infra/pools.yaml"
REST_NAME = "contract, runtime and pipelines"
NO_CODE = (".md", ".html", ".css", ".js", ".svg", ".ipynb")
TODAY = "today's code"


@dataclass(frozen=True)
class Version:
    """One version of the code."""

    title: str
    root: Path
    """A folder with its files."""
    files: dict[str, str]
    """Path -> SHA-256."""
    is_today: bool = False

    @property
    def digest(self) -> str:
        """Return the SHA-256 of all of it."""
        return hashlib.sha256("".join(f"{path}\0{of}\n" for path, of in self.files.items()).encode()).hexdigest()


@dataclass(frozen=True)
class Versions:
    """The code of both ends."""

    good: Version
    bad: Version
    folder: Path
    """Where mixtures are written."""

    @property
    def rooms(self) -> list[str]:
        """Return the rooms in which they differ: components/rl, ...; the last is what goes together."""
        changed = {path for path, digest in self.good.files.items() if self.bad.files.get(path) != digest}
        changed |= self.bad.files.keys() - self.good.files.keys()
        found = {_room(path) for path in changed if _counts(path)}
        return sorted(found, key=lambda room: (room == REST_NAME, room))

    def count(self, room: str) -> int:
        """Return how many files of a room differ."""
        paths = {*self.good.files, *self.bad.files}
        own = [path for path in paths if _counts(path) and _room(path) == room]
        return sum(self.good.files.get(path) != self.bad.files.get(path) for path in own)

    def root(self, rooms: Collection[str]) -> Path | None:
        """Return a folder with GOOD's code but for BAD's of these rooms; None for today's code, which runs here."""
        for version, is_whole in ((self.good, not rooms), (self.bad, set(rooms) == set(self.rooms))):
            if is_whole:
                return None if version.is_today else version.root
        name = hashlib.sha256("\0".join((self.good.digest, self.bad.digest, *sorted(rooms))).encode()).hexdigest()[:16]
        target = self.folder / name
        if not target.is_dir():
            with _whole(target) as scratch:
                for version, mixed in ((self.good, False), (self.bad, True)):
                    _copy(version, scratch, [path for path in version.files if (_room(path) in rooms) == mixed])
        return target

    def differences(self) -> list[Difference]:
        """Return the differences of the code, one for each room."""
        found = []
        for room in self.rooms:
            count = self.count(room)
            says = f"code of {room}: {count} file{'' if count == 1 else 's'}"
            found.append(Difference(kind=CODE, rooms=(room,), says=says))
        return found

    def title(self, rooms: Collection[str]) -> str:
        """Return what a mixture is, for the lineage."""
        if not rooms:
            return self.good.title
        if set(rooms) == set(self.rooms):
            return self.bad.title
        return f"{self.good.title} with {', '.join(sorted(rooms))} of {self.bad.title}"


def find_version(commit: str | None, folder: Path) -> Version:
    """Return the code of a commit, written into `folder`; of None, today's files as they are now.

    Raises InputError where that is not known.
    """
    if commit is None:
        return _today(folder)
    found = resolve_commit(commit)
    target = folder / found[:16]
    if not target.is_dir():
        prefix = _git("rev-parse", "--show-prefix").decode().strip()
        packed = _git("archive", "--format=tar", f"{found}:{prefix}" if prefix else found)
        with _whole(target) as scratch, tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            members = [one for one in archive.getmembers() if one.name.partition("/")[0] in FOLDERS]
            archive.extractall(scratch, members, filter="data")
    return Version(f"commit {found[:12]}", target, _files(target))


def resolve_commit(commit: str) -> str:
    """Return the whole id of a commit; raise InputError if the code's repository has none of this name."""
    try:
        return _git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{commit}^{{commit}}").decode().strip()
    except InputError:
        raise InputError(f"the code of posttrain in {ROOT} has no commit {visible_line(commit)[:60]!r}") from None


def _today(folder: Path) -> Version:
    """Return a copy of today's files: they may be edited while mixtures run."""
    files = _files(ROOT)
    version = Version(TODAY, ROOT, files, is_today=True)
    target = folder / f"today-{version.digest[:16]}"
    if not target.is_dir():
        with _whole(target) as scratch:
            _copy(version, scratch, files)
    return Version(TODAY, target, files, is_today=True)


def _room(path: str) -> str:
    """Return the room of a file: components/rl, or the name of those that go together."""
    parts = path.split("/")
    room = "/".join(parts[:2]) if parts[0] == "components" and len(parts) > 2 else parts[0]
    return REST_NAME if room in REST or room == "components" else room


def _counts(path: str) -> bool:
    """Return whether a file may change a result; a recipe is an end of its own, and pages and images are not work."""
    top = path.split("/")[0]
    if top == "infra" or path.startswith("pipelines/recipes/"):
        return path == POOLS
    return not path.endswith(NO_CODE)


def _files(root: Path) -> dict[str, str]:
    """Return path -> SHA-256 of all files of a checkout that count."""
    found = {}
    for top in FOLDERS:
        for path in sorted((root / top).rglob("*")):
            name = path.relative_to(root).as_posix()
            hidden = any(part.startswith(".") or part == "__pycache__" for part in name.split("/"))
            if not hidden and path.suffix != ".pyc" and path.is_file() and not path.is_symlink():
                found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def _copy(version: Version, target: Path, paths: Collection[str]) -> None:
    for name in paths:
        to = target / name
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(version.root / name, to)


@contextmanager
def _whole(target: Path) -> Iterator[Path]:
    """Yield a folder that becomes `target` when all of its files are there."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".code-", dir=target.parent) as scratch:
        made = Path(scratch) / "code"
        made.mkdir()
        yield made
        if not target.exists():
            made.replace(target)


def _git(*arguments: str) -> bytes:
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InputError(f"git {arguments[0]}: {error}") from None
    if done.returncode:
        text = done.stderr.decode(errors="replace").strip().splitlines()
        raise InputError(f"other versions of the code need posttrain's git repository: {text[-1] if text else 'none'}")
    return done.stdout


def head() -> str | None:
    """Return today's commit if no file of it is changed, else None."""
    try:
        changed = _git("status", "--porcelain", "--", *FOLDERS)
        return None if changed.strip() else _git("rev-parse", "HEAD").decode().strip()
    except InputError:
        return None
