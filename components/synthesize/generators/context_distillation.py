"""Right responses that were written with help in the prompt, as rows whose prompt has no help."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pydantic import Field

from components.synthesize.context import GeneratorContext
from components.synthesize.generators.rejection import RejectionConfig, rejection
from components.synthesize.made import Dropped, Made
from components.synthesize.writers import Writers
from components.tasks.item import Item, item_id

NO_BARE_PROMPT = "no_bare_prompt"


class ContextDistillationConfig(RejectionConfig):
    """Where the prompt without its context is; the rest is `rejection`."""

    key: str = Field(default="bare_prompt", min_length=1)
    """Key of an item's data that holds the prompt without what helps: source `functions` has it with `shown: true`."""


def context_distillation(
    items: Sequence[Item], writers: Writers, context: GeneratorContext, *, config: ContextDistillationConfig
) -> Iterator[Made | Dropped]:
    """Yield the rows of `rejection` under their bare prompts: what was told in a prompt has to be remembered then.

    Snell et al. 2022 (context distillation); Yuan et al. 2025 (RL-compositionality, stage 1: definitions removed).
    """
    able = [item for item in items if _bare(item, config.key)]
    yield from [Dropped(NO_BARE_PROMPT)] * (len(items) - len(able))
    for row in rejection(able, writers, context, config=config):
        yield row if isinstance(row, Dropped) else _without_context(row, config.key)


def _bare(item: Item, key: str) -> str:
    """Return an item's prompt without context; empty where it has none."""
    found = item.data.get(key)
    return found.strip() if isinstance(found, str) else ""


def _without_context(row: Made, key: str) -> Made:
    item, prompt = row.item, _bare(row.item, key)
    changed = {"id": item_id(item.domain, prompt, item.answer), "prompt": prompt, "messages": ()}
    return Made(item.model_copy(update=changed), row.response, {**row.extras, "of": item.id})
