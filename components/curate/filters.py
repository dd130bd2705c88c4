"""The checks of curate alone: language and quality of texts."""

from __future__ import annotations

from components.curate.params import CurateParams
from components.curation.candidate import RowCheck
from components.curation.operators.language import LanguageFilter
from components.curation.operators.quality import QualityFilter


def text_filters(params: CurateParams) -> list[RowCheck]:
    """Return the checks of language and quality that are switched on."""
    language = [LanguageFilter(params.language)] if params.language else []
    return [*language, *([QualityFilter(params.quality)] if params.quality else [])]
