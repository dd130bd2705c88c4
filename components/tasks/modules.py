"""Which modules verification runs, for fingerprints of stages that verify responses."""

from __future__ import annotations

from components.contract.registry import operators


def verifier_modules() -> list[str]:
    """Return the modules of all registered verifiers, sorted; rows choose among them, so any may run."""
    registry = operators("verifier")
    modules = {registry.entry(name).target.partition(":")[0] for name in registry.names()}
    return sorted(modules | {"components.tasks.verify_worker"})
