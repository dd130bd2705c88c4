"""How much of each domain was forgotten, and its resulting share of the rehearsal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from components.measure.intervals import Bootstrap, Interval
from components.measure.ledger import PassRateRow

Ledger = Mapping[str, Mapping[str, PassRateRow]]


def measure_forgetting(before: Ledger, after: Ledger, bootstrap: Bootstrap) -> dict[str, Interval]:
    """Return domain -> pass@1 before minus after, over the prompts that both evaluations verified.

    Domains without such a prompt are left out, as nothing was measured.
    """
    drops: dict[str, Interval] = {}
    for domain in sorted(before.keys() & after.keys()):
        shared = sorted(before[domain].keys() & after[domain].keys())
        differences = [before[domain][name].value - after[domain][name].value for name in shared]
        found = bootstrap.mean_interval(differences) if differences else None
        if found is not None and found.n:
            drops[domain] = found
    return drops


def forgotten(drops: Mapping[str, Interval]) -> list[str]:
    """Return the domains whose drop has its whole interval above 0."""
    return [domain for domain, drop in drops.items() if drop.low > 0]


def rehearsal_shares(domains: Iterable[str], drops: Mapping[str, Interval], keep_share: float) -> dict[str, float]:
    """Return the share of each domain, summing to 1.

    Forgotten domains divide 1 - `keep_share` in proportion to their drops; the others divide `keep_share` equally.
    If none or all are forgotten, the only group gets everything.
    """
    names = sorted(domains)
    lost = {name: drops[name].value for name in forgotten(drops) if name in names}
    kept = [name for name in names if name not in lost]
    for_kept = keep_share if lost and kept else float(not lost)
    whole = sum(lost.values())
    shares = {name: for_kept / len(kept) for name in kept}
    shares |= {name: (1 - for_kept) * drop / whole for name, drop in lost.items()}
    return dict(sorted(shares.items()))
