"""What a reference says: a stage, perhaps the cell of its matrix, and perhaps a port."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from pipelines.language.nodes import Node
from pipelines.language.problems import shown

_REFERENCE = re.compile(r"(?P<stage>[^\s.\[\]]+)(?:\[(?P<cell>[^\[\]]*)\])?(?:\.(?P<port>[^\s.\[\]]+))?", re.ASCII)
_SELECTOR = re.compile(r"\s*([a-z0-9_-]+)\s*=\s*([^,=]+?)\s*", re.ASCII)


@dataclass(frozen=True)
class Wanted:
    """A reference being followed through repeats."""

    node: Node
    """Node to report errors at."""
    text: str
    stage: str
    port: str
    selector: Mapping[str, str]


def parse(node: Node) -> Wanted | str:
    """Return what a text refers to, or what is wrong with it."""
    found = _REFERENCE.fullmatch(node.value)
    if found is None:
        return f"{shown(node.value)} is neither stage.port nor a URI (a path starts with ./ or /)"
    selector = {}
    for part in (found["cell"] or "").split(",") if found["cell"] is not None else ():
        pair = _SELECTOR.fullmatch(part)
        if pair is None:
            return f"{shown(node.value)}: expected [axis=value, ...] after the stage's name"
        selector[pair[1]] = pair[2]
    return Wanted(node, node.value, found["stage"], found["port"] or "", selector)
