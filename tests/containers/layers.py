"""Looks for byte strings in all that an image is: its layers' files and names, its configuration and its history."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable

CHUNK_BYTES = 1 << 24


def found_in(image: str, needles: Iterable[str]) -> set[str]:
    """Return which of the needles the image holds anywhere; its layers lie open in the stream that is searched."""
    wanted = {needle: needle.encode() for needle in needles}
    overlap = max(map(len, wanted.values())) - 1
    found: set[str] = set()
    command = ["podman", "save", "--quiet", "--format", "docker-archive", image]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as saving:
        assert saving.stdout is not None
        tail = b""
        while chunk := saving.stdout.read(CHUNK_BYTES):
            piece = tail + chunk
            found |= {needle for needle, sought in wanted.items() if sought in piece}
            tail = piece[-overlap:] if overlap else b""
    assert saving.returncode == 0
    return found
