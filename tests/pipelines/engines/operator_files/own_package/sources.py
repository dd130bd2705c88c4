"""A source of a person's own."""

from components.tasks.source import SourceRequest, SourceRow, SourceRows
from own_package import alphabet

from .settings import RowsConfig


def rows(request: SourceRequest, *, config: RowsConfig) -> SourceRows:
    """Return rows that ask for a word backward."""
    words = [alphabet.word(number) for number in range(config.count)]
    made = (SourceRow(where=f"row {at}", prompt=f"{word} backward", answer=word[::-1]) for at, word in enumerate(words))
    return SourceRows(made, {"name": "own"})
