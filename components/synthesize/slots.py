"""The slot of synthesize."""

from __future__ import annotations

from components.contract.slots import Slot
from components.synthesize.config import GeneratorConfig

GENERATOR = Slot(
    name="generator",
    package=f"{__package__}.generators",
    summary="How new rows are made of items by writers: models, endpoints or programs",
    call="(items: Sequence[Item], writers: Writers, context: GeneratorContext) -> Iterable[Made | Dropped]",
    config=GeneratorConfig,
)
