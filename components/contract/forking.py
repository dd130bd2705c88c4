"""Forks: what a checkpoint holds, and which parameters differ, for components that say whether both fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from components.contract.params import Params


@dataclass(frozen=True)
class Held:
    """What a checkpoint holds."""

    step: int
    files: frozenset[str]
    """Names of the files that the component gave."""

    def has(self, beginning: str) -> bool:
        """Return whether a file's name begins so."""
        return any(name.startswith(beginning) for name in self.files)


def changed(before: Params, now: Params) -> list[str]:
    """Return the dotted names of the parameters that differ, the outermost where a whole mapping came or went."""
    return list(_changed("", before.model_dump(mode="json"), now.model_dump(mode="json")))


def _changed(name: str, before: Any, now: Any) -> Iterator[str]:
    if before == now:
        return
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        for key in dict.fromkeys([*before, *now]):
            yield from _changed(f"{name}.{key}" if name else str(key), before.get(key), now.get(key))
    else:
        yield name
