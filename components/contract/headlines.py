"""Headline metrics in the order their component declares them: the most informative first."""

from __future__ import annotations

from collections.abc import Mapping

from components.contract.display import place_pattern
from components.contract.errors import PosttrainError
from components.contract.registry import components


def in_order(component: str, metrics: Mapping[str, float]) -> dict[str, float]:
    """Return `metrics` in the component's declared order; the store keeps them alphabetically.

    A declared name with a placeholder, such as share_<domain>, covers all matching names. Undeclared metrics, and those
    of a component that is not installed, come last in their given order.
    """
    try:
        declared = list(components().get(component).metrics)
    except PosttrainError:
        return dict(metrics)
    patterns = [place_pattern(name) for name in declared]

    def rank(name: str) -> int:
        if name in declared:
            return declared.index(name)
        return next((place for place, pattern in enumerate(patterns) if pattern.fullmatch(name)), len(declared))

    return {name: metrics[name] for name in sorted(metrics, key=rank)}
