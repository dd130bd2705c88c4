"""The lineage graph as a terminal tree; imported only for output to people."""

from __future__ import annotations

from typing import Any

from rich.markup import escape
from rich.tree import Tree

from components.contract.terminal import visible_line
from components.runtime.lineage.graph.graph import ANCESTORS, Graph, Node
from components.runtime.lineage.names import flatten

MAX_PARAMS = 6
MAX_VALUE = 32
"""Characters of a parameter's value; --json has the whole."""
SHORT = 12


def lineage_tree(graph: Graph) -> Tree:
    """Return the graph as a rich tree from its root; repeated nodes are named, but not expanded again."""
    steps: dict[str, list[tuple[str, str]]] = {}
    for source, target, port in graph.edges:
        near, far = (target, source) if graph.direction == ANCESTORS else (source, target)
        steps.setdefault(near, []).append((far, port))
    tree = Tree(visible_line(_label(graph.nodes[graph.root], "")))
    seen = {graph.root}
    stack = [(tree, *step) for step in reversed(steps.get(graph.root, ()))]
    while stack:  # in display order, so that "as above" is above
        branch, node_id, port = stack.pop()
        if node_id in seen and steps.get(node_id):
            branch.add(visible_line(f"{_name(graph.nodes[node_id], port)} [dim](as above)[/dim]"))
            continue
        seen.add(node_id)
        child = branch.add(visible_line(_label(graph.nodes[node_id], port)))
        stack += [(child, *step) for step in reversed(steps.get(node_id, ()))]
    return tree


def _label(node: Node, port: str) -> str:
    name = _name(node, port)
    if node["kind"] == "stage":
        return f"{name} {escape(_stage_facts(node))}"
    return f"{name} [red]removed[/red]" if node["kind"] == "artifact" and not node["stored"] else name


def _name(node: Node, port: str) -> str:
    at = f"[cyan]{escape(port)}[/cyan] " if port else ""
    if node["kind"] == "artifact":
        return f"{at}[bold]{node['type']}[/bold] {node['digest'][:SHORT]}"
    if node["kind"] == "stage":
        return f"{at}[green]{escape(node['stage'])}[/green]"
    if node["kind"] == "registered":
        aliases = "".join(f" @{alias}" for alias in node["aliases"])
        return f"[magenta]{escape(node['name'])}/{node['version']}{escape(aliases)}[/magenta]"
    return f"[yellow]{escape(node['uri'])}[/yellow]"


def _stage_facts(node: Node) -> str:
    code: dict[str, Any] = node["code"]
    version = f"{str(code['version'])[:SHORT]}{'+changes' if code['dirty'] else ''}"
    params = [f"{name}={_short(value)}" for name, value in flatten(node["given_params"])]
    more = [f"and {len(params) - MAX_PARAMS} more"] if len(params) > MAX_PARAMS else []
    facts = [f"run {node['run_id']}", f"seed {node['seed']}", f"code {version}"]
    return " | ".join([*facts, ", ".join([*params[:MAX_PARAMS], *more])] if params else facts)


def _short(value: Any) -> str:
    """Return a parameter's value shortened for display."""
    text = " ".join(str(value).split())
    if len(text) <= MAX_VALUE:
        return text
    return f"[{len(value)} items]" if isinstance(value, list) else f"{text[: MAX_VALUE - 3]}..."
