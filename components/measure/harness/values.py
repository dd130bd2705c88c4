"""Values of metric operators by prompt, `prompt_values.jsonl`: what another evaluation pairs with."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from components.contract.artifacts import canonical_json
from components.contract.errors import InputError
from components.measure.outcomes import ItemOutcomes

PROMPT_VALUES = "prompt_values.jsonl"
Column = Mapping[str, Sequence[float | None]]
"""Metric -> a value for each prompt of a domain."""
Values = dict[str, dict[str, float]]
"""Metric -> prompt id -> value."""


def write_values(folder: Path, outcomes: Mapping[str, Sequence[ItemOutcomes]], columns: Mapping[str, Column]) -> None:
    """Write the values of every prompt, a line each; a metric that a prompt does not have is left out."""
    lines = []
    for domain, column in columns.items():
        for place, outcome in enumerate(outcomes[domain]):
            found = {name: value for name, values in column.items() if (value := values[place]) is not None}
            row = {"prompt_id": outcome.item.id, "domain": domain, "values": found}
            lines.append(canonical_json(row) + b"\n")
    (folder / PROMPT_VALUES).write_bytes(b"".join(lines))


def read_values(folder: Path) -> Values:
    """Return the values of an evaluation, empty if it has none; raise InputError naming a line that is none of them."""
    path, found = folder / PROMPT_VALUES, Values()
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    for number, line in enumerate(lines, start=1):
        try:
            row = json.loads(line)
            for name, value in row["values"].items():
                found.setdefault(name, {})[row["prompt_id"]] = float(value)
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            raise InputError(f"{path}:{number}: not the values of a prompt: {error}") from error
    return found
