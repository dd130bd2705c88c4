"""Sources inside other sources: they must have no end, since rows of them may be left out."""

from __future__ import annotations

from components.contract.errors import InputError
from components.contract.operators import OperatorSpec
from components.tasks.source import SourceConfig


def check_endless(source: OperatorSpec, outer: str) -> None:
    """Raise InputError if the source that `outer` is made of ends."""
    bound = source.resolve()
    if not (isinstance(bound.config, SourceConfig) and bound.config.endless):
        raise InputError(f"source {outer}: {bound.name!r} ends; a source without end is needed")
