"""The modules that verification runs, for fingerprints of stages whose rows are unknown before they run."""

from __future__ import annotations

from collections.abc import Iterable

from components.contract.registry import operators
from components.tasks.slots import VERIFIER


def verifier_modules(names: Iterable[str] | None = None) -> list[str]:
    """Return the modules of verifiers, sorted; None means all registered ones, as rows choose among them."""
    registry = operators(VERIFIER)
    chosen = registry.names() if names is None else names
    return sorted({registry.entry(name).target.partition(":")[0] for name in chosen})
