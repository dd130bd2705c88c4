"""The rehearsal set: examples by domain and share, and the card with the reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from components.contract.errors import StageFailed
from components.measure.intervals import Interval
from components.measure.measure_params import require_domain
from components.modeling.generation.sampler import Sampler
from components.replay.forgetting import forgotten, rehearsal_shares
from components.replay.params import ReplayParams, Source
from components.replay.pools import Pools, Row, Tally, gold, own, recorded_rollouts, take

FOR_FORGOTTEN: tuple[Source, ...] = ("gold", "own", "rollouts")
FOR_KEPT: tuple[Source, ...] = ("own", "rollouts", "gold")
NUM_SAMPLES = 8

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Rehearsal:
    """Rows to train on, and each domain's share of the training, regardless of its number of rows."""

    rows: list[Row]
    shares: dict[str, float]
    card: dict[str, Any]


class Assembler:
    """Draws the rehearsal set, domain by domain."""

    def __init__(
        self,
        pools: Pools,
        drops: Mapping[str, Interval],
        params: ReplayParams,
        sampler: Sampler,
        *,
        seed: int,
        progress: Progress,
    ) -> None:
        """Raise InputError for a domain in `sources` or `mixture` without data."""
        self._pools, self._drops, self._params = pools, drops, params
        self._sampler, self._seed, self._progress = sampler, seed, progress
        self._tally = Tally()
        for name in params.sources:
            require_domain(name, pools.domains, "sources")
        for name in params.mixture:
            require_domain(name, pools.domains, "mixture")

    def assemble(self) -> Rehearsal:
        """Fill each domain's share; raise StageFailed if no row, or no row of a domain in `mixture`, is usable."""
        rows: dict[str, list[Row]] = {}
        for domain, share in self._shares(self._pools.domains).items():
            found = self._fill(domain, round(share * self._params.num_examples))
            if found:
                rows[domain] = found
        if not rows or self._params.mixture.keys() - rows.keys():
            raise StageFailed(self._nothing(rows))
        shares = self._shares(list(rows))
        flat = [row for domain in shares for row in rows[domain]]
        return Rehearsal(flat, shares, _card(flat, shares, self._drops, self._pools, self._tally))

    def _shares(self, domains: Sequence[str]) -> dict[str, float]:
        mixture = self._params.mixture
        if mixture:
            return {domain: share / sum(mixture.values()) for domain, share in sorted(mixture.items())}
        drops = self._drops if self._params.weighting == "measured" else {}
        return rehearsal_shares(domains, drops, self._params.keep_share)

    def _fill(self, domain: str, count: int) -> list[Row]:
        """Return up to `count` rows from the first of the domain's sources that has any."""
        if not count:
            return []
        draws = (self._draw(source, domain) for source in self._sources(domain))
        return next((found for rows in draws if (found := take(rows, count, self._params.max_per_prompt))), [])

    def _sources(self, domain: str) -> tuple[Source, ...]:
        """Return the sources of a domain's examples, best first.

        Without a measurement, domains in the rollouts count as just learnt, others as forgotten.
        """
        if domain in self._params.sources:
            return self._params.sources[domain]
        measured = domain in self._drops
        lost = domain in forgotten(self._drops) if measured else domain not in self._pools.rollouts
        return FOR_FORGOTTEN if lost else FOR_KEPT

    def _draw(self, source: Source, domain: str) -> Iterator[Row]:
        if source == "gold":
            return gold(self._pools, domain, self._seed, self._tally)
        if source == "rollouts":
            return recorded_rollouts(self._pools, domain)
        return own(
            self._pools, domain, self._sampler, self._params.own, self._seed, self._tally, progress=self._progress
        )

    def _nothing(self, rows: Mapping[str, Sequence[Row]]) -> str:
        without = sorted({*self._params.mixture, *self._pools.domains} - rows.keys())
        return (
            f"nothing to rehearse of {', '.join(without)}: no demonstration, rollout or own sample was verified right "
            f"({sum(self._tally.rejected.values())} wrong, {sum(self._tally.failed.values())} verifications failed)"
        )


def _card(
    rows: Sequence[Row], shares: Mapping[str, float], drops: Mapping[str, Interval], pools: Pools, tally: Tally
) -> dict[str, Any]:
    """Return card.json: per domain its share and the reason, the origins of its rows, and the refusals."""
    lost = forgotten(drops)
    by_domain = {domain: [row for row in rows if row["domain"] == domain] for domain in shares}
    offered = Counter({domain: len(found) for domain, found in pools.demonstrations.items()})
    offered.update({domain: len(found) for domain, found in pools.rollouts.items()})
    return {
        "kind": "demonstrations",
        "num_rows": len(rows),
        "domains": {
            "before": dict(sorted(offered.items())),
            "after": {domain: len(found) for domain, found in by_domain.items()},
        },
        "rehearsal": {
            domain: {
                "share": shares[domain],
                "forgotten": domain in lost,
                "drop": drops[domain].to_json() if domain in drops else None,
                "num_prompts": len({row["id"] for row in found}),
                "origins": dict(sorted(Counter(row["origin"] for row in found).items())),
                "num_verified_right": tally.right[domain],
                "num_rejected": tally.rejected[domain],
                "num_failed": tally.failed[domain],
            }
            for domain, found in by_domain.items()
        },
        "unrehearsed": sorted({*pools.domains, *lost} - set(shares)),
        "samples": [row for found in by_domain.values() for row in found[:NUM_SAMPLES]],
    }
