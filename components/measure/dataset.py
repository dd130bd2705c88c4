"""The prompts that a stage measures on: items of several datasets, by domain."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from components.contract.errors import InputError, StageFailed
from components.measure.metrics import check_domains
from components.measure.outcomes import ItemOutcomes
from components.tasks.item import Item
from components.tasks.rows import read_items


def read_prompts(folders: Iterable[Path]) -> dict[str, list[Item]]:
    """Return domain -> items of all datasets, domains sorted, items in order; a repeated item counts once.

    Raises InputError for no items at all, for one id with two contents, and for domains whose metrics would share
    a name.
    """
    items: dict[str, Item] = {}
    for folder in folders:
        for item in read_items(folder):
            if items.setdefault(item.id, item) != item:
                raise InputError(f"{folder}: two different prompts have the id {item.id!r}; ids must be unique")
    if not items:
        raise InputError("the dataset has no rows: there is nothing to measure on")
    domains = sorted({item.domain for item in items.values()})
    check_domains(domains)
    return {domain: [item for item in items.values() if item.domain == domain] for domain in domains}


def require_verdicts(outcomes: Mapping[str, Sequence[ItemOutcomes]]) -> None:
    """Raise StageFailed, with the first reason, when not one response of any domain could be verified."""
    flat = [outcome for found in outcomes.values() for outcome in found]
    if not any(outcome.num_verified for outcome in flat):
        first = flat[0]
        raise StageFailed(
            f"none of {sum(outcome.num_samples for outcome in flat)} responses could be verified, so there is nothing "
            f"to measure; verifier {first.item.verifier!r} failed on prompt {first.item.id}: {first.verdicts[0].detail}"
        )
