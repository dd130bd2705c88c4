"""`keep_partial`: which checkpoints of a stage outlive it, so that it can be forked there."""

from __future__ import annotations

from components.contract.component import Component
from components.contract.params import Params
from pipelines.language.nodes import Node
from pipelines.language.problems import Problems


def kept_every(
    path: str, stage: Node, every: int | None, component: Component, config: Params | None, problems: Problems
) -> int | None:
    """Return the steps between kept checkpoints of a stage; note where none would be made at them.

    A default for all stages may meet some whose checkpoints are not of steps; there it means nothing.
    """
    if every is None:
        return None
    given = stage.child("keep_partial")
    if component.forks is None:
        if given is not None:
            makes = f"component {component.name!r} makes no checkpoints of steps"
            problems.add(given.where, f"stage {path!r}, keep_partial: {makes}")
        return None
    made, minutes = (getattr(config, name, None) for name in ("checkpoint_every", "checkpoint_minutes"))
    if made is not None and minutes is None and (made == 0 or every % made):
        way = (
            f"leave checkpoint_every out, or keep every {made * max(1, round(every / made))}"
            if made
            else "leave it out"
        )
        what = f"every {every} steps, but checkpoint_every: {made} makes none there; {way}"
        problems.add((given or stage).where, f"stage {path!r}, keep_partial: {what}")
    return every
