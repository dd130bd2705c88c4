"""Stages on their pools: whether what generates and trains there suits the operators that a stage names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from components.contract.backends import Backends
from pipelines.language.problems import Problems
from pipelines.recipe.draft import StageDraft
from pipelines.recipe.pools import Pool


def check_backends(drafts: Mapping[str, StageDraft], pools: Mapping[str, Pool], problems: Problems) -> None:
    """Note stages whose operators need what their sampler or trainer cannot do: they would fail on the paid node."""
    for draft in drafts.values():
        pool = pools.get(draft.words.pool)
        if draft.component is None or draft.config is None or pool is None:
            continue
        for why in _refusals(draft, pool.backends(draft.words.backend)):
            chosen = draft.node.child("backend") or draft.node.child("pool")
            what = f"stage {draft.cell.template.path!r} on pool {draft.words.pool!r}: {why}"
            problems.add(chosen.mark if chosen else draft.node.where, what)


def _refusals(draft: StageDraft, backends: Backends) -> Iterator[str]:
    component = draft.component
    assert component is not None
    if component.refuses_backends is not None:
        yield from component.refuses_backends(draft.config, backends)
    if component.refuses_inputs is not None:
        connected = {port for port, references in draft.inputs.items() if references}
        yield from component.refuses_inputs(draft.config, connected, backends)
