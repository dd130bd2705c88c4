"""The key `moved`: a run that goes on for another one, which has ended at a step's border elsewhere."""

from __future__ import annotations

from pipelines.language.nodes import Node
from pipelines.language.problems import Problems, shown

MOVED = "moved"
MAX_LENGTH = 200


def read_moved(root: Node, problems: Problems) -> str | None:
    """Return the id of the run that a recipe's run goes on for; None without one, or if a problem was noted."""
    node = root.child(MOVED)
    if node is None or node.value is None:
        return None
    value = node.value
    if not isinstance(value, str) or not value.strip() or len(value) > MAX_LENGTH:
        problems.add(node.mark, f"{MOVED}: got {shown(value)}, expected the id of a run; `posttrain move RUN` sets it")
        return None
    return value.strip()
