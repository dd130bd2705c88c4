"""Settings of the sources."""

from pydantic import Field

from components.tasks.source import SourceConfig


class RowsConfig(SourceConfig):
    """How many rows there are."""

    count: int = Field(default=3, ge=1)
    """Rows."""
