"""Shares by what a model was measured to fail at, or to be learning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from components.contract.errors import InputError
from components.curate.selection.config import MixtureConfig
from components.curate.selection.context import LEDGER, SelectionContext

if TYPE_CHECKING:
    from components.curate.params import SourceShare


class MeasuredConfig(MixtureConfig):
    """What decides a domain's share."""

    needs = (LEDGER,)

    by: Literal["failure", "learnability"] = "failure"
    """The domain's mean failure rate 1 - p, or its mean learnability p (1 - p), over its prompts in the ledger."""
    floor: float = Field(default=0.0, ge=0, lt=1)
    """Least share of each domain before the shares are made to sum to 1, so that none is lost."""


def measured(sources: Sequence[SourceShare], context: SelectionContext, *, config: MeasuredConfig) -> list[float]:
    """Return a share for each source in proportion to its domain's measure; sources of one domain divide it by weight.

    `failure` is the budget of SwS (Liang et al. 2025, arXiv:2506.08989), section 2. Raises InputError for a domain
    that no ledger measured, and where every measure is 0.
    """
    rates: dict[str, dict[str, float]] = {}
    for ledger in context.ledgers:
        for row in ledger.totals.values():
            if row.value == row.value:
                rates.setdefault(row.domain, {})[row.prompt_id] = row.value
    domains = {share.domain or "": 0.0 for share in sources if share.count is None}
    if unknown := sorted(domains.keys() - rates.keys()):
        raise InputError(f"mixture measured: no ledger measured {', '.join(map(repr, unknown))}")
    for domain in domains:
        values = [1 - p if config.by == "failure" else p * (1 - p) for p in rates[domain].values()]
        domains[domain] = sum(values) / len(values)
    if not (total := sum(domains.values())):
        raise InputError(f"mixture measured: the measure {config.by} is 0 for every domain; nothing tells them apart")
    shares = {domain: max(config.floor, value / total) for domain, value in domains.items()}
    weights = {domain: sum(share.weight for share in sources if (share.domain or "") == domain) for domain in shares}
    return [
        shares[share.domain or ""] * share.weight / weights[share.domain or ""] if share.count is None else 0.0
        for share in sources
    ]
