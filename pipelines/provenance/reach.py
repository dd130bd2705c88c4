"""Which stages of a recipe depend on a source, and what a rebuild without it would do."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from components.contract.errors import InputError
from components.contract.job import StageRef, alternatives
from components.runtime.lineage.graph.producers import IN_STORE
from pipelines.plan.forecast import Outlook
from pipelines.provenance.forward import touched_by
from pipelines.recipe.fork import FORK
from pipelines.recipe.sources import WITHOUT, plain_source

if TYPE_CHECKING:
    from components.runtime.ledger.ledger import RunRecord
    from components.runtime.store import Store
    from pipelines.plan.forecast import StageForecast
    from pipelines.recipe.recipe import Recipe


@dataclass(frozen=True)
class Reach:
    """The stages of a recipe by what a removal does to them."""

    reading: tuple[str, ...]
    """Those that read the removed sources."""
    depending: tuple[str, ...]
    """Those, and whatever takes what they make."""
    others: tuple[str, ...]

    @classmethod
    def of(cls, before: Recipe, after: Recipe) -> Reach:
        """Return the reach of what `after` leaves out of `before`."""
        given = {stage.name: stage.params for stage in before.stages}
        reading = [stage.name for stage in after.stages if stage.params != given.get(stage.name)]
        depending = set(reading)
        for stage in after.stages:  # in topological order
            references = alternatives(one for port in stage.inputs.values() for one in port)
            taken = {reference.stage for reference in references if isinstance(reference, StageRef)}
            if depending & (taken | {setting.stage for setting in stage.settings}):
                depending.add(stage.name)
        names = [stage.name for stage in after.stages]
        return cls(
            tuple(reading),
            tuple(name for name in names if name in depending),
            tuple(name for name in names if name not in depending),
        )


def overrides_without(overrides: Sequence[str], left_out: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return the overrides of a run that leaves out these sources as well as those in `left_out`."""
    kept = [text for text in overrides if text.partition("=")[0].strip() != WITHOUT]
    every = dict.fromkeys([*left_out, *map(plain_source, names)])
    return [*kept, f"{WITHOUT}={json.dumps(list(every))}"]


def need_same_work(run: RunRecord, recipe: Recipe) -> None:
    """Raise InputError if a recipe no longer requests what a run did: a statement would tell of two changes at once."""
    asked = {stage["name"]: (stage["component"], stage["params"], stage["seed"]) for stage in run.planned.values()}
    now = {stage.name: (stage.component.name, stage.params, stage.seed) for stage in recipe.stages}
    changed = sorted(name for name in asked.keys() | now.keys() if asked.get(name) != now.get(name))
    if changed:
        raise InputError(
            f"the recipe of run {run.run_id} has changed since, in {', '.join(changed[:5])}: run it first, and rebuild "
            "that run; or name the recipe as it was with --recipe"
        )


def need_own_inputs(store: Store, run: RunRecord, names: Sequence[str]) -> None:
    """Raise InputError if a run goes on from what the sources already reached elsewhere: a fork's checkpoint, or an
    artifact of the store that it takes as an input."""
    if fork := run.entry.get(FORK):
        raise InputError(
            f"run {run.run_id} is a fork: its checkpoint of {fork['stage']}@{fork['step']} learned from all sources of "
            f"run {fork['run']}; rebuild that one"
        )
    taken = {
        item["digest"]: (stage, port, item["source"])
        for stage, entry in run.stages.items()
        for port, items in entry["inputs"].items()
        for item in items
        if str(item["source"]).startswith(IN_STORE)
    }
    if not taken:
        return
    for name in names:
        touched = touched_by(store, name)
        for digest in touched.digests:
            if digest in taken:
                stage, port, source = taken[digest]
                maker = touched.maker_of(digest)
                raise InputError(
                    f"input {port} of stage {stage!r} is {source}, which {plain_source(name)} reached; rebuild "
                    f"{maker or 'the run that made it'} first, and let the recipe name what it makes"
                )


@dataclass(frozen=True)
class Effect:
    """What a rebuild would do."""

    reach: Reach
    will_run: tuple[str, ...]
    cached: tuple[str, ...]
    besides: Mapping[str, str]
    """Stages that run although they do not depend on the source -> why."""

    @classmethod
    def of(cls, reach: Reach, forecasts: Sequence[StageForecast]) -> Effect:
        """Return the effect by a forecast."""
        of_kind = {outlook: tuple(one.job.stage for one in forecasts if one.outlook is outlook) for outlook in Outlook}
        besides = {
            one.job.stage: one.reason
            for one in forecasts
            if one.outlook is Outlook.RUN and one.job.stage not in reach.depending
        }
        return cls(reach, of_kind[Outlook.RUN], of_kind[Outlook.CACHED], besides)

    def to_json(self) -> dict[str, Any]:
        """Return it for scripts."""
        return {
            "reading": list(self.reach.reading),
            "depending": list(self.reach.depending),
            "others": list(self.reach.others),
            "will_run": list(self.will_run),
            "cached": list(self.cached),
            "besides": dict(self.besides),
        }
