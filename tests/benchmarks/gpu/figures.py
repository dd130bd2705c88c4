"""Figures of a benchmark on a GPU, each with its threshold; a rehearsal on a CPU judges none."""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.gpu.device import ON_GPU, facts, synchronize, why_not

PEAKS = {"H100 PCIe": 756e12, "H100 NVL": 835e12, "H100": 989e12, "H200": 989e12, "A100": 312e12, "B200": 2250e12}
"""Dense bfloat16 FLOP/s that makers name, by what a device's name contains."""


class Figures:
    """The figures of one benchmark."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.peak = peak_flops(facts()["device"])

    def add(
        self, name: str, value: float, unit: str, *, at_least: float | None = None, at_most: float | None = None
    ) -> None:
        """Add a figure, with the least or most that it should be on a GPU."""
        row: dict[str, Any] = {"name": name, "value": float(f"{value:.4g}"), "unit": unit}
        threshold = at_least if at_least is not None else at_most
        if threshold is not None:
            row["threshold"] = f"{'at least' if at_least is not None else 'at most'} {threshold:g}"
            reached = value >= threshold if at_least is not None else value <= threshold
            row["verdict"] = ("pass" if reached else "miss") if ON_GPU else "not judged: a CPU"
        self.rows.append(row)
        print(
            f"{name:44} {row['value']:>12g} {unit:16} {row.get('threshold', '')} {row.get('verdict', '')}", flush=True
        )

    def add_utilisation(self, name: str, flops: float, seconds: float, *, at_least: float | None = None) -> None:
        """Add the share of the device's peak that the model's own operations took; nothing where it is unknown."""
        if self.peak is not None:
            self.add(name, 100 * flops / seconds / self.peak, "% of peak", at_least=at_least)


def peak_flops(device: str) -> float | None:
    """Return a device's dense bfloat16 FLOP/s; None for a CPU, and for what PEAKS does not know."""
    if not ON_GPU:
        return None
    return next((peak for name, peak in PEAKS.items() if name.lower() in device.lower()), None)


def seconds_of(work: Callable[[], object], *, warm_up: int = 2, tries: int = 5) -> float:
    """Return the median time of `work`; the device has done it before the clock stops."""
    for _ in range(warm_up if ON_GPU else 1):
        work()
    found = []
    for _ in range(tries if ON_GPU else 1):
        synchronize()
        began = time.perf_counter()
        work()
        synchronize()
        found.append(time.perf_counter() - began)
    return statistics.median(found)


def run(description: str | None, measure: Callable[[Figures], None]) -> None:
    """Measure, and write what was found where --json says."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    path = parser.parse_args().json
    if reason := why_not():
        raise SystemExit(reason)
    found = Figures()
    try:
        measure(found)
    finally:  # what was measured before something broke is kept
        if path:
            path.write_text(json.dumps({**facts(), "figures": found.rows}, indent=1) + "\n")
