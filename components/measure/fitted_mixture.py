"""mixture.json: the shares of domains that a tabulate stage fitted, as curate takes them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from components.contract.errors import InputError
from components.measure.metrics import write_json

FILE = "mixture.json"


def write_mixture(folder: Path, shares: Mapping[str, float], facts: Mapping[str, Any]) -> None:
    """Write the shares, and what is known of the fit."""
    write_json(folder / FILE, {"shares": dict(sorted(shares.items())), **facts})


def read_mixture(folder: Path) -> dict[str, float]:
    """Return domain -> share of a Metrics folder; raise InputError if it has no mixture."""
    path = folder / FILE
    if not path.is_file():
        raise InputError(f"{folder}: no {FILE}; connect the metrics of a tabulate stage with `fit`")
    try:
        shares = {str(domain): float(share) for domain, share in json.loads(path.read_text("utf-8"))["shares"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path}: not a fitted mixture: {error!r}") from error
    if not shares or not all(0 <= share <= 1 for share in shares.values()) or abs(sum(shares.values()) - 1) > 1e-6:
        raise InputError(f"{path}: the shares of a mixture lie from 0 to 1 and sum to 1, found {shares}")
    return shares
