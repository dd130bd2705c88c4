"""Drawings of recipes, kept by the content of all that they depend on. Imports no Airflow and no recipe.

Airflow reads all recipes again and again, and a recipe takes a tenth of a second. A kept drawing is used if nothing has
changed that it was made of: this tree's code, Python, packages that add to it, the pools, the names of all recipes (a
key), and the files of the recipe with its parents (by their hashes, inside). One that is damaged, or lies where others
may write, is none. Nothing here is executed: a drawing is JSON, checked against its form.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.runtime.store.access import local_cache
from components.runtime.store.records import seal, unseal
from pipelines.engines.airflow.graphs.drawing import Drawing
from pipelines.language.find import FOLDER
from pipelines.language.whole_file import write_whole
from pipelines.recipe.pools import RUNS_ON, pools_file

if TYPE_CHECKING:
    from pydantic import TypeAdapter

VARIABLE = "POSTTRAIN_AIRFLOW_GRAPHS"
"""Folder of drawings; below this user's cache unless set. An image may hold one."""
ROOT = Path(__file__).parents[4]
CODE = ("components", "pipelines")
GROUPS = ("posttrain.components", "posttrain.operators", "posttrain.methods", "posttrain.recipes")
KEPT_SECONDS = 30 * 86_400.0
OTHERS_WRITE = 0o022
LOADED = time.time()
SETTLED_SECONDS = 60.0
"""Code that changed later than this before it was loaded may have been loaded half new, half old."""


@dataclass(frozen=True)
class Drawn:
    """A drawing that was just made."""

    name: str
    path: Path
    drawing: Drawing
    files: Mapping[Path, str]
    """The recipe's file and those of its parents -> the text that was read."""


@dataclass(frozen=True)
class Graphs:
    """The drawings that fit the present code, pools and names of recipes."""

    folder: Path
    world: str
    """Hash of what all drawings depend on."""
    settled: bool
    """Whether the code on the disk is that of this process."""

    @classmethod
    def here(cls, recipes: Mapping[str, Path]) -> Graphs:
        """Return those of this tree; `recipes` are all that a name can mean."""
        given = os.environ.get(VARIABLE)
        world, changed = _world(recipes)
        settled = changed < LOADED - SETTLED_SECONDS
        return cls(Path(given) if given else local_cache() / "airflow-graphs", world, settled)

    def find(self, name: str, path: Path) -> Drawing | None:
        """Return a recipe's drawing if one is kept, whole, and made of what is there now."""
        target = self._target(name, path)
        try:
            if not _ours(target.parent) or not _ours(target):
                return None
            kept = unseal(target.read_bytes())
            if kept is None or any(_hash(Path(file)) != digest for file, digest in kept["files"].items()):
                return None
            drawing: Drawing = _form().validate_json(kept["drawing"])
            return drawing
        except (OSError, ValueError, KeyError, TypeError, AttributeError):  # gone, or not what was written here
            return None

    def keep(self, drawn: Sequence[Drawn], recipes: Mapping[str, Path]) -> None:
        """Keep drawings that were just made, unless something changed meanwhile; a folder that takes none is left."""
        if not drawn or not self.settled or _world(recipes)[0] != self.world:
            return
        with suppress(OSError):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for one in drawn:
                files = {str(file.absolute()): _hash_text(text) for file, text in one.files.items()}
                drawing = _form().dump_json(one.drawing).decode()  # a text: what is sealed has its keys sorted
                write_whole(self._target(one.name, one.path), seal({"files": files, "drawing": drawing}).decode())
            self._drop_old()

    def _target(self, name: str, path: Path) -> Path:
        return self.folder / f"{_digest([self.world, name, str(path.absolute())])}.json"

    def _drop_old(self) -> None:
        for path in self.folder.glob("*.json"):
            if path.stat().st_mtime < time.time() - KEPT_SECONDS:
                path.unlink(missing_ok=True)


def _world(recipes: Mapping[str, Path]) -> tuple[str, float]:
    """Return the hash of what all drawings depend on, and when the newest of its files changed."""
    pools, points = pools_file(), _points()
    folders = [ROOT / name for name in CODE] + [folder for point in points for folder in _folders(point)]
    sources = sorted({file for folder in folders for file in _sources(folder)})
    parts = [sys.version, version("pydantic"), str(Path.home()), os.environ.get(RUNS_ON, ""), str(pools), _hash(pools)]
    parts += _names(recipes) + [f"{point.group}:{point.name}={point.value}" for point in points]
    changed = max((file.stat().st_ctime for file in sources), default=0.0)
    return _digest([*parts, *(part for file in sources for part in (str(file), _hash(file)))]), changed


def _names(recipes: Mapping[str, Path]) -> list[str]:
    return [f"{name}={path.absolute()}" for name, path in sorted(recipes.items())]


def _points() -> list[EntryPoint]:
    found = entry_points()
    return sorted((point for group in GROUPS for point in found.select(group=group)), key=lambda point: point.name)


def _folders(point: EntryPoint) -> list[Path]:
    """Return the folders, or the file, of the package that an entry point names."""
    spec = find_spec(point.value.partition(":")[0].partition(".")[0])
    if spec is None:
        return []
    return [Path(place) for place in spec.submodule_search_locations or filter(None, [spec.origin])]


def _sources(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder, without what Python compiled and the recipes, which have hashes of their own."""
    if folder.is_file():
        yield folder
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != "__pycache__" and Path(place, name) != FOLDER]
        yield from (Path(place, name) for name in names)


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _hash_text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _digest(parts: Iterable[str]) -> str:
    return _hash_text(json.dumps(list(parts)))


def _ours(path: Path) -> bool:
    """Return whether nobody but this user, or root, can have written a file or folder."""
    found = path.stat()
    return found.st_uid in (os.getuid(), 0) and not found.st_mode & OTHERS_WRITE


@cache
def _form() -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(Drawing)
