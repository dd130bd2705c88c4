"""Headline metrics as short text, for the live view."""

from __future__ import annotations

from collections.abc import Mapping

SHOWN_METRICS = 3


def metrics_text(metrics: Mapping[str, float]) -> str:
    """Return the first metrics as short text."""
    shown = list(metrics.items())[:SHOWN_METRICS]
    return "  ".join(f"{name} {value:,.0f}" if abs(value) >= 1000 else f"{name} {value:.3g}" for name, value in shown)
