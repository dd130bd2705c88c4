"""Headline metrics in the order in which their component declares them: the telling ones first."""

from __future__ import annotations

from collections.abc import Mapping

from components.contract.display import place_pattern
from components.contract.errors import PosttrainError
from components.contract.registry import components

SHOWN_METRICS = 3


def in_order(component: str, metrics: Mapping[str, float]) -> dict[str, float]:
    """Return `metrics` as the component declares them; the store keeps them by the alphabet, which tells nothing.

    A declared name with a place, such as share_<domain>, stands for all that fit. What is not declared, or is of a
    component that is not installed here, comes last as it was given.
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


def metrics_text(metrics: Mapping[str, float]) -> str:
    """Return the first few metrics as short text."""
    shown = list(metrics.items())[:SHOWN_METRICS]
    return "  ".join(f"{name} {value:,.0f}" if abs(value) >= 1000 else f"{name} {value:.3g}" for name, value in shown)
