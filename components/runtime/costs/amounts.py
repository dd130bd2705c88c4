"""Amounts: hours of GPUs and CPU cores, and money; and the rate at which a job of a pool takes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

SECONDS_PER_HOUR = 3600.0


@dataclass(frozen=True)
class Amount:
    """What stages took; amounts add up."""

    hours: float = 0.0
    """Hours that attempts lasted, one after the other."""
    gpu_hours: float = 0.0
    cpu_hours: float = 0.0
    """Of the cores that were set aside."""
    cpu_hours_used: float | None = 0.0
    """Of the cores that were at work, on the first node of each attempt; None where nobody measured it."""
    prices: Mapping[str, float] = field(default_factory=dict)
    """Currency -> money; "" where pools.yaml names no currency."""
    without_price: frozenset[str] = frozenset()
    """Pools that took time and have no price, so that `prices` lacks them."""

    def __add__(self, other: Amount) -> Amount:
        used = None
        if self.cpu_hours_used is not None and other.cpu_hours_used is not None:
            used = self.cpu_hours_used + other.cpu_hours_used
        currencies = dict.fromkeys([*self.prices, *other.prices])
        return Amount(
            self.hours + other.hours,
            self.gpu_hours + other.gpu_hours,
            self.cpu_hours + other.cpu_hours,
            used,
            {name: self.prices.get(name, 0.0) + other.prices.get(name, 0.0) for name in currencies},
            self.without_price | other.without_price,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the amount for scripts."""
        return {
            "hours": self.hours,
            "gpu_hours": self.gpu_hours,
            "cpu_hours": self.cpu_hours,
            "cpu_hours_used": self.cpu_hours_used,
            "prices": dict(self.prices),
            "without_price": sorted(self.without_price),
        }


def total(amounts: Iterable[Amount]) -> Amount:
    """Return the sum of amounts, nothing for none."""
    return sum(amounts, Amount())


@dataclass(frozen=True)
class Rate:
    """What a job takes from its pool while it runs."""

    pool: str
    cpus: int
    """Cores on all nodes."""
    gpus: int
    """GPUs on all nodes."""
    price_per_hour: float | None = None
    """Of all nodes; None where pools.yaml has no price."""
    currency: str = ""

    @classmethod
    def of_record(cls, record: Any) -> Rate | None:
        """Return the rate that a run's record holds; None if it holds none, as of runs from before there were any."""
        return cls(**record) if isinstance(record, Mapping) and {"pool", "cpus", "gpus"} <= record.keys() else None

    def to_record(self) -> dict[str, Any]:
        """Return the rate for a run's record."""
        price = {} if self.price_per_hour is None else {"price_per_hour": self.price_per_hour}
        currency = {"currency": self.currency} if self.currency else {}
        return {"pool": self.pool, "cpus": self.cpus, "gpus": self.gpus, **price, **currency}

    def amount(self, seconds: float, cpu_seconds: float | None = None) -> Amount:
        """Return what a job takes in some seconds; `cpu_seconds` is what it used of its cores, if that is known."""
        hours = seconds / SECONDS_PER_HOUR
        known = self.price_per_hour is not None
        return Amount(
            hours,
            hours * self.gpus,
            hours * self.cpus,
            None if cpu_seconds is None else cpu_seconds / SECONDS_PER_HOUR,
            {self.currency: hours * (self.price_per_hour or 0.0)} if known else {},
            frozenset() if known or not seconds else frozenset({self.pool}),
        )
