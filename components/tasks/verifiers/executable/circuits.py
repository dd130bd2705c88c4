"""Circuits as expressions of gates: on how many rows of the truth table one is right."""

from __future__ import annotations

from components.contract.params import Params
from components.tasks.answers import extract_answer
from components.tasks.domains.circuits import bits, evaluate
from components.tasks.item import Item
from components.tasks.verify import RIGHT, BrokenItem, Verdict, wrong

MAX_INPUTS = 8


class CircuitsVerifierConfig(Params):
    """No settings of its own."""


def circuits(item: Item, response: str, *, config: CircuitsVerifierConfig) -> Verdict:
    """Compute the answer, with or without `y =` before it, for all inputs; the score is the share of right rows.

    The language is ours: letters of the inputs, ~ & ^ | and brackets. Any other text is WRONG.
    """
    names, table = item.data.get("names"), item.data.get("table")
    if not (isinstance(names, str) and 0 < len(set(names)) == len(names) <= MAX_INPUTS and isinstance(table, str)):
        raise BrokenItem(f"data.names or data.table is not of source circuits: {names!r:.40}")
    if len(table) != 1 << len(names) or set(table) - set("01"):
        raise BrokenItem(f"data.table is no table of {len(names)} inputs: {table!r:.80}")
    text = extract_answer(response).removeprefix("assign ").removeprefix("y").strip().removeprefix("=")
    column = evaluate(text.removesuffix(";"), names)
    if column is None:
        return wrong(f"no expression of {', '.join(names)}: {text[:60]!r}")
    given = bits(column, len(names))
    right = sum(one == other for one, other in zip(given, table, strict=True))
    return RIGHT if given == table else wrong(f"{right} of {len(table)} rows", graded=right / len(table))
