"""posttrain lineage: what made an artifact, what was made of it, and delivery to MLflow."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from pipelines.cli.damage import damage_lines
from pipelines.cli.output import print_json, print_rich, print_text
from pipelines.cli.stores import store_of
from pipelines.runs.find import whole_reference

SYNC = "sync"


def lineage(arguments: argparse.Namespace) -> int:
    """Show a lineage graph, or deliver pending events when the reference is "sync"."""
    if arguments.reference == SYNC:
        return _sync(arguments)
    from components.runtime.lineage.graph.graph import ancestors, descendants

    store = store_of(arguments)
    reference = whole_reference(store, arguments.reference)
    walk = descendants if arguments.descendants else ancestors
    graph = walk(store, reference)
    stored = [node for node in graph.of_kind("artifact") if node["stored"]]
    damaged = damage_lines(store, {node["digest"]: str(node["type"]) for node in stored})
    if arguments.json:
        print_json(graph.to_json() | ({"damage": damaged} if damaged else {}))
        return int(bool(damaged))
    from components.runtime.lineage.graph.tree import lineage_tree

    print_rich(lineage_tree(graph))
    for line in damaged:
        print_text(line)
    return int(bool(damaged))


def _sync(arguments: argparse.Namespace) -> int:
    """Deliver the spool's pending events; the exit code is 1 if an event is still pending or was refused."""
    from components.runtime.lineage.delivery.deliver import sync
    from components.runtime.lineage.delivery.target import tracking_uri, without_credentials

    store = store_of(arguments)
    uri = tracking_uri(store)
    results = sync(store, uri)
    incomplete = any(result.pending or result.refused for result in results.values())
    if arguments.json:
        runs = {run_id: asdict(result) for run_id, result in results.items()}
        print_json({"tracking_uri": without_credentials(uri), "complete": not incomplete, "runs": runs})
        return int(incomplete)
    if not results:
        print(f"nothing is pending; everything is in {without_credentials(uri)}")
    for run_id, result in results.items():
        print_text(f"{run_id}: {result.delivered} events delivered" + _rest(result.pending, result.problem))
        for key, reason in result.refused.items():
            print_text(f"  refused: {key}: {reason}")
    return int(incomplete)


def _rest(pending: int, problem: str | None) -> str:
    if not pending:
        return ""
    return f", {pending} pending" + (f" ({problem})" if problem else "")
