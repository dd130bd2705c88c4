"""A toy source."""

from __future__ import annotations

from tests.pipelines.toy_operators.source_config import SourceConfig


def counting(*, config: SourceConfig) -> list[int]:
    """Return the first numbers."""
    return list(range(config.count))
