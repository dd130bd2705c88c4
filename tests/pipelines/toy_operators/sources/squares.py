"""A toy source."""

from __future__ import annotations

from tests.pipelines.toy_operators.source_config import SourceConfig


def squares(*, config: SourceConfig) -> list[int]:
    """Return the first squares."""
    return [n * n for n in range(config.count)]
