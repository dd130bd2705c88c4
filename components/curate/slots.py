"""The slots of curate: selectors among the collected rows, and mixtures of the sources."""

from __future__ import annotations

from components.contract.slots import Slot
from components.curate.selection.config import MixtureConfig, SelectorConfig

OPERATORS = f"{__package__}.operators"

SELECTOR = Slot(
    name="selector",
    package=f"{OPERATORS}.selectors",
    summary="Which of the collected rows are kept, by a ledger, a model or one another",
    call="(rows: Sequence[Candidate], context: SelectionContext) -> Selection",
    many=True,
    config=SelectorConfig,
)
MIXTURE = Slot(
    name="mixture",
    package=f"{OPERATORS}.mixtures",
    summary="The share of each source in `size`",
    call="(sources: Sequence[SourceShare], context: SelectionContext) -> Sequence[float], a weight from 0 for each",
    config=MixtureConfig,
    default="declared",
)
