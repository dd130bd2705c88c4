"""What rows are made from: items and texts of datasets, recorded responses, pass rates."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from components.contract.context import Input, StageContext
from components.contract.errors import InputError
from components.measure.ledger import PassRateRow, read_ledger
from components.synthesize.context import Recorded
from components.synthesize.params import SynthesizeParams
from components.tasks.item import UNLABELLED, Item, item_from_row, text_id
from components.tasks.rows import iter_rows


def read_items(context: StageContext[SynthesizeParams], ledger: dict[str, PassRateRow]) -> list[Item]:
    """Return the items of inputs `dataset` and `rollouts`, each id once, in order, cut to the wanted pass rates.

    A row of plain text is an item whose prompt is the text. Raises InputError if there is none, with the reason.
    """
    found: dict[str, Item] = {}
    for artifact in (*context.inputs("dataset"), *context.inputs("rollouts")):
        for where, row in iter_rows(artifact.path):
            item = _item(row, f"{artifact.source}: {where}")
            if found.setdefault(item.id, item).task != item.task:
                raise InputError(f"{artifact.source}: {where}: another item has the id {item.id!r}; ids must be unique")
    if not found:
        raise InputError("there is nothing to make rows from: connect input `dataset` or `rollouts`, with rows")
    chosen = [item for item in found.values() if _wanted(item, context.params.pass_rate, ledger)]
    if not chosen:
        raise InputError(
            f"pass_rate: none of {len(found)} items has a pass rate in {list(context.params.pass_rate or ())}"
        )
    return chosen


def read_rollouts(artifacts: Iterable[Input]) -> dict[str, list[Recorded]]:
    """Return item id -> recorded responses that were judged, in order."""
    found: dict[str, list[Recorded]] = {}
    for artifact in artifacts:
        for where, row in iter_rows(artifact.path):
            item = item_from_row(row, f"{artifact.source}: {where}")
            if row.get("outcome") in ("right", "wrong"):
                found.setdefault(item.id, []).append(Recorded(str(row["response"]), row["outcome"] == "right"))
    return found


def read_ledgers(artifacts: Iterable[Input]) -> dict[str, PassRateRow]:
    """Return item id -> pass rate of input `ledger`."""
    return {
        name: row
        for artifact in artifacts
        for rows in read_ledger(artifact.path).values()
        for name, row in rows.items()
    }


def _item(row: dict[str, Any], where: str) -> Item:
    if isinstance(text := row.get("text"), str):
        domain = str(row.get("domain") or "text")
        name = str(row.get("id") or text_id(domain, text))
        return Item(id=name, domain=domain, prompt=text, answer="", verifier=UNLABELLED)
    return item_from_row(row, where)


def _wanted(item: Item, bounds: tuple[float, float] | None, ledger: dict[str, PassRateRow]) -> bool:
    if bounds is None:
        return True
    row = ledger.get(item.id)
    return row is not None and bounds[0] <= row.value <= bounds[1]  # NaN is in no range
