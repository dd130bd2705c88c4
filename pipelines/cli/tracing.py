"""posttrain trace: from a source to all that it touched, and from items of an evaluation back to rows and rollouts."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from components.contract.errors import InputError
from pipelines.cli.output import print_json
from pipelines.cli.stores import store_of
from pipelines.cli.trace_tables import print_item, print_items, print_touched
from pipelines.recipe.sources import PREFIX
from pipelines.runs.find import find_run

if TYPE_CHECKING:
    from pipelines.provenance.backward import Behind, NearRow, Trace
    from pipelines.provenance.items import Measured, Solved
    from pipelines.provenance.nearest import Asked

CHOSEN_FROM = 4
"""Items that are compared for each one that is listed."""


def trace(arguments: argparse.Namespace) -> int:
    """Trace a source, the failed items of an evaluation, or one item."""
    if arguments.what.startswith(PREFIX):
        if arguments.item is not None:
            raise InputError(f"{arguments.what} is a source: name RUN or RUN:STAGE to trace item {arguments.item!r}")
        return _source(arguments)
    from components.runtime.ledger.ledger import load_run
    from pipelines.provenance.backward import trace_back
    from pipelines.provenance.items import evaluations, find_item

    store = store_of(arguments)
    run_text, _, stage = arguments.what.partition(":")
    found = evaluations(store, load_run(store, find_run(store, run_text)), stage or None)
    if arguments.item is not None:
        measured, item = find_item(store, found, arguments.item)
        behind = trace_back(store, measured, [item], _progress)
        if arguments.json:
            print_json(_item_json(measured, behind, behind.traces[0]))
        else:
            print_item(store, measured, behind, arguments.limit)
        return 0
    measured = found[-1]
    items = _chosen(arguments, measured)
    behind = trace_back(store, measured, items, _progress)
    behind.traces.sort(key=lambda one: _surprise(measured, one, solved=arguments.right))
    del behind.traces[arguments.limit :]
    if arguments.json:
        print_json(
            {"evaluation": measured.place, "items": [_item_json(measured, behind, one) for one in behind.traces]}
        )
    else:
        print_items(measured, behind)
    return 0


def _source(arguments: argparse.Namespace) -> int:
    from pipelines.provenance.forward import touched_by

    touched = touched_by(store_of(arguments), arguments.what)
    if arguments.json:
        print_json(touched.to_json())
    else:
        print_touched(touched)
    return 0


def _chosen(arguments: argparse.Namespace, measured: Measured) -> list[Asked]:
    """Return the items to compare: those with the lowest pass rates, or the highest."""
    from pipelines.provenance.items import asked_in

    sign = -1 if arguments.right else 1
    rated = sorted((one.rate * sign, one.prompt_id) for one in measured.solved.values() if one.rate == one.rate)
    wanted = {prompt_id: place for place, (_, prompt_id) in enumerate(rated[: CHOSEN_FROM * arguments.limit])}
    items = {item.id: item for item in asked_in(store_of(arguments), measured) if item.id in wanted}
    return sorted(items.values(), key=lambda item: wanted[item.id])


def _surprise(measured: Measured, one: Trace, *, solved: bool) -> tuple[float, int, float]:
    """Return a key that sorts by pass rate, then by how near the nearest training row is."""
    rate = measured.solved[one.item.id].rate
    rank, similarity = one.rows[0].near.rank[:2] if one.rows else (-1, 0.0)
    return (-rate if solved else rate), -rank, -similarity


def _progress(where: str, count: int) -> None:
    if sys.stderr.isatty():
        print(f"\rreading {where}: {count:,} rows ", end="", file=sys.stderr, flush=True)


def _solved_json(solved: Solved) -> dict[str, Any]:
    return {"right": solved.num_right, "wrong": solved.num_wrong, "failed": solved.num_failed}


def _item_json(measured: Measured, behind: Behind, one: Trace) -> dict[str, Any]:
    return {
        "evaluation": measured.place,
        "item": vars(one.item),
        "solved": _solved_json(measured.solved[one.item.id]),
        "rows": [_near_json(near) for near in one.rows],
        "rollouts": [_near_json(near) for near in one.rollouts],
        "ledgers": [vars(ledger) | {"own": _solved_json(ledger.own) if ledger.own else None} for ledger in one.ledgers],
        "read": {"rows": behind.num_rows, "rollouts": behind.num_rollouts, "stages": behind.stages},
    }


def _near_json(near: NearRow) -> dict[str, Any]:
    return {
        "stages": list(near.stages),
        "port": near.port,
        "digest": near.digest,
        "row": near.near.number,
        "how": near.near.how.value,
        "similarity": round(near.near.similarity, 4),
        "came_through": list(near.origin.stages),
        "sources": [use.to_json() for use in near.origin.sources],
        "content": dict(near.near.row),
    }
