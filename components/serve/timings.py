"""What requests cost: latency and throughput, from the times that the client saw."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from components.measure.intervals import Bootstrap, Interval

QUANTILES = {"latency_p50_seconds": 0.5, "latency_p95_seconds": 0.95}


def timings(answers: Sequence[Mapping[str, Any]], bootstrap: Bootstrap) -> dict[str, Interval | float]:
    """Return the quantiles of a request's seconds with intervals over requests, and tokens and requests a second.

    Throughput is over the time in which at least one request was under way, in this attempt and in earlier ones.
    """
    seconds = np.array([answer["seconds"] for answer in answers], dtype=np.float64)
    found: dict[str, Interval | float] = {
        name: _quantile(seconds, share, bootstrap) for name, share in QUANTILES.items()
    }
    busy = busy_seconds((answer["began"], answer["began"] + answer["seconds"]) for answer in answers)
    if busy > 0:
        found["tokens_per_second"] = sum(answer["tokens"] for answer in answers) / busy
        found["requests_per_second"] = len(answers) / busy
    return found


def busy_seconds(spans: Iterable[tuple[float, float]]) -> float:
    """Return how long at least one of the spans (begin, end) lasted."""
    total, until = 0.0, float("-inf")
    for begin, end in sorted(spans):
        total += max(0.0, end - max(begin, until))
        until = max(until, end)
    return total


def _quantile(seconds: np.ndarray[Any, np.dtype[np.float64]], share: float, bootstrap: Bootstrap) -> Interval:
    generator = np.random.default_rng((bootstrap.seed, 7))
    drawn = [
        float(np.quantile(seconds[generator.integers(len(seconds), size=len(seconds))], share))
        for _ in range(min(bootstrap.resamples, 500))
    ]
    return bootstrap.interval(float(np.quantile(seconds, share)), np.array(drawn), len(seconds))
