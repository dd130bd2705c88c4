"""Looks for byte strings in all that an image is: its layers' files and names, its configuration and its history."""

from __future__ import annotations

import mmap
from collections.abc import Iterable
from pathlib import Path

from tests.containers.conftest import podman


def found_in(image: str, needles: Iterable[str], folder: Path) -> set[str]:
    """Return which of the needles the image holds anywhere; `folder` takes the image, whose layers lie open in it."""
    archive = folder / "image.tar"
    podman("save", "--quiet", "--format", "docker-archive", "--output", str(archive), image)
    try:
        with archive.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as everything:
            return {needle for needle in needles if everything.find(needle.encode()) >= 0}
    finally:
        archive.unlink()
