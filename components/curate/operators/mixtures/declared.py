"""The shares as the recipe declares them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from components.curate.selection.config import MixtureConfig
from components.curate.selection.context import SelectionContext

if TYPE_CHECKING:
    from components.curate.params import SourceShare


class DeclaredConfig(MixtureConfig):
    """Nothing to set."""

    by_domain = False


def declared(sources: Sequence[SourceShare], context: SelectionContext, *, config: DeclaredConfig) -> list[float]:
    """Return the weight of each source."""
    return [share.weight for share in sources]
