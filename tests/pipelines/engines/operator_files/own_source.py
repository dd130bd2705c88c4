"""A source of a person's own."""

from letters import word
from pydantic import Field

from components.tasks.source import SourceConfig, SourceRequest, SourceRow, SourceRows


class RowsConfig(SourceConfig):
    count: int = Field(default=3, ge=1)
    """Rows."""


def rows(request: SourceRequest, *, config: RowsConfig) -> SourceRows:
    """Return rows that ask for a word backward."""
    made = (
        SourceRow(where=f"row {n}", prompt=f"{word(n)} backward", answer=word(n)[::-1]) for n in range(config.count)
    )
    return SourceRows(made, {"name": "own"})
