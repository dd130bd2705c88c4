"""The lineage of an artifact, to look at in a notebook."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from components.contract.terminal import visible

if TYPE_CHECKING:
    from rich.console import Console

    from components.runtime.lineage.graph.graph import Graph

WIDTH = 160
CODE = '<pre style="line-height: 1.35; overflow-x: auto">{code}</pre>'


class Lineage:
    """Which data, code and parameters made an artifact, or what was made of it. A notebook shows it as a tree."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        """Its nodes by id, and its edges in the direction of data flow."""

    def to_json(self) -> dict[str, Any]:
        """Return all that `posttrain lineage --json` prints."""
        return self.graph.to_json()

    def __repr__(self) -> str:
        return visible(self._console().export_text())

    def _repr_html_(self) -> str:
        return visible(self._console().export_html(inline_styles=True, code_format=CODE))

    def _console(self) -> Console:
        """Return a console that has recorded the tree; in a notebook, one of rich would show what it records."""
        from rich.console import Console

        from components.runtime.lineage.graph.tree import lineage_tree

        console = Console(record=True, file=io.StringIO(), width=WIDTH, force_jupyter=False)
        console.print(lineage_tree(self.graph))
        return console
