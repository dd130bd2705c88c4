"""A shuffle on disk: rows are dealt out to files at random, and each file is shuffled in memory.

Every order is equally likely (Rao 1961; Sandelius 1962), and one file is in memory at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path

from components.tasks.seeds import derive_rng


def shuffled(lines: Iterable[bytes], folder: Path, *, buckets: int, seed: int) -> Iterator[bytes]:
    """Yield the lines in a random order that depends on the seed, their number and the number of buckets alone."""
    rng = derive_rng(seed, "shuffle")
    paths = [folder / f"bucket-{number:04d}" for number in range(buckets)]
    with ExitStack() as stack:
        files = [stack.enter_context(path.open("wb")) for path in paths]
        for line in lines:
            files[rng.randrange(buckets)].write(line)
    for path in paths:
        with path.open("rb") as stream:
            found = stream.readlines()
        path.unlink()
        rng.shuffle(found)
        yield from found
