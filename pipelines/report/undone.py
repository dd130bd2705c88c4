"""What stages that ended well left undone, in numbers: skipped updates, lost prompts, failed verifications."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from components.contract.errors import PosttrainError
from components.contract.registry import components


def undone(component: str, metrics: Mapping[str, Any]) -> list[tuple[str, float]]:
    """Return (words, count) of the counts above 0, the gravest first; empty for a component that is not installed."""
    try:
        declared: Mapping[str, str] = components().get(component).undone
    except PosttrainError:
        return []
    found = ((words, metrics.get(name)) for name, words in declared.items())
    return [(words, float(value)) for words, value in found if isinstance(value, int | float) and value > 0]


def undone_lines(stages: Iterable[tuple[str, str, Mapping[str, Any]]]) -> Iterator[str]:
    """Yield a line for each of (stage, component, metrics) that left something undone."""
    for stage, component, metrics in stages:
        if counts := undone(component, metrics):
            yield f"{stage}: {', '.join(f'{words} {count:,.0f}' for words, count in counts)}"
