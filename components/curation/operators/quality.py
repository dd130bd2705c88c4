"""Quality: drops texts by published rules for corpora of the web."""

from __future__ import annotations

from typing import Annotated

from components.contract.params import Params
from components.curation.candidate import Candidate
from components.curation.operators.c4 import C4Config, c4_reason
from components.curation.operators.gopher import GopherConfig, RepetitionConfig, gopher_reason, repetition_reason
from components.curation.switch import SWITCH


class QualityConfig(Params):
    """Which rules a text must keep."""

    gopher: Annotated[GopherConfig | None, SWITCH] = GopherConfig()
    """Length, words, symbols, bullets, stop words."""
    repetition: Annotated[RepetitionConfig | None, SWITCH] = RepetitionConfig()
    """Repeated lines, paragraphs and n-grams."""
    c4: Annotated[C4Config | None, SWITCH] = None
    """Sentences that end, no placeholders and no code."""


class QualityFilter:
    """Rejects texts that break a rule, and tells which."""

    def __init__(self, config: QualityConfig) -> None:
        self._config = config

    def reject(self, draft: Candidate) -> str | None:
        """Return the first rule that the text, or the prompt with its response, breaks."""
        text = "\n".join((draft.content, *draft.turns, draft.response or "")) if draft.item else draft.content
        config = self._config
        return (
            (gopher_reason(text, config.gopher) if config.gopher else None)
            or (repetition_reason(text, config.repetition) if config.repetition else None)
            or (c4_reason(text, config.c4) if config.c4 else None)
        )

    def keep(self, draft: Candidate) -> None:
        """Do nothing: kept rows have no effect on this check."""
