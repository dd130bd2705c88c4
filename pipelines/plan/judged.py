"""Judges that are a reward without an audit that can stop the run."""

from __future__ import annotations

from collections.abc import Iterator

from components.contract.further import JUDGES
from components.contract.job import alternatives
from pipelines.recipe.recipe import Recipe
from pipelines.recipe.stage import Stage

AUDIT = "master_keys"
RATE = "key_rate"
"""What a metric of the diagnostic begins with."""


def unaudited_judges(recipe: Recipe) -> Iterator[tuple[str, str]]:
    """Yield (stage, remark) where a reward asks judges that nothing has tried to deceive before.

    An audit is `integrity: required`, or an evaluation of the same judge with diagnostic master_keys and a gate on it,
    which the stage waits for.
    """
    stages = {stage.name: stage for stage in recipe.stages}
    before: dict[str, set[str]] = {}
    for stage in recipe.stages:  # in order
        before[stage.name] = set(stage.after).union(*(before.get(name, set()) for name in stage.after))
        earlier = [stages[name] for name in before[stage.name] if name in stages]
        tried = {ref for one in earlier if _tries_keys(one) for ref in _judges(one)}
        component = stage.component
        if not component.audited_by or component.asks is None or JUDGES not in component.asks(stage.config):
            continue
        audits = [
            one for one in recipe.stages if one.name in stage.after and one.component.name == component.audited_by
        ]
        if not any(one.gate for one in audits) and not _judges(stage) <= tried:
            yield (
                stage.name,
                "a judge is a reward, and nothing stops the run where it marks responses without content right; write "
                f"`integrity: required`, or gate an evaluation of the judge with diagnostic {AUDIT} before it",
            )


def _tries_keys(stage: Stage) -> bool:
    diagnostics = getattr(stage.config, "diagnostics", ())
    return any(spec.name == AUDIT for spec in diagnostics) and any(RATE in condition for condition in stage.gate)


def _judges(stage: Stage) -> set[str]:
    """Return the judges of a stage, as text."""
    return {repr(ref) for ref in alternatives(stage.inputs.get(JUDGES, []))}
