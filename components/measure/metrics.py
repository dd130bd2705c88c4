"""metrics.json of a Metrics artifact: name -> {"value", and where known "low", "high", "n"}."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from components.contract.artifacts import METRICS_FILE, write_metrics_file
from components.contract.errors import InputError
from components.measure.intervals import Interval


def metric_key(metric: str, domain: str) -> str:
    """Return the name of a domain's metric: what expressions and MLflow accept, whatever the domain is called."""
    return f"{metric}_{safe_name(domain)}"


def safe_name(domain: str) -> str:
    """Return a domain's name with all but ASCII letters, digits and '_' replaced by '_'."""
    return re.sub(r"[^A-Za-z0-9_]+", "_", domain)


def check_domains(domains: Iterable[str]) -> None:
    """Raise InputError when two domains would share the names of their metrics."""
    owners: dict[str, str] = {}
    for domain in domains:
        other = owners.setdefault(safe_name(domain), domain)
        if other != domain:
            raise InputError(f"domains {other!r} and {domain!r} would both be called {safe_name(domain)!r}: rename one")


def write_metrics(folder: Path, metrics: Mapping[str, Interval | float]) -> None:
    """Write metrics.json, sorted by name."""
    write_metrics_file(folder, _entries(metrics))


def add_metrics(folder: Path, metrics: Mapping[str, Interval | float]) -> None:
    """Add entries to a folder's metrics.json; entries of the same name are replaced."""
    write_metrics_file(folder, {**read_metrics(folder), **_entries(metrics)})


def read_metrics(folder: Path) -> dict[str, dict[str, float | int]]:
    """Return metrics.json of a Metrics artifact; raise InputError when there is none."""
    path = folder / METRICS_FILE
    if not path.is_file():
        raise InputError(f"{folder}: no {METRICS_FILE}; it is not a Metrics artifact")
    return json.loads(path.read_text(encoding="utf-8"))


def write_json(path: Path, value: Any) -> None:
    """Write a small JSON file for people and programs; a curve's k stay in their order."""
    path.write_text(json.dumps(value, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def _entries(metrics: Mapping[str, Interval | float]) -> dict[str, float | dict[str, float | int]]:
    return {name: value.to_json() if isinstance(value, Interval) else value for name, value in metrics.items()}
