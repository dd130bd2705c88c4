"""`keep_partial`: which checkpoints of a stage outlive it, so that it can be forked there, and `on_alarm: rollback`,
which returns it to one of them."""

from __future__ import annotations

from components.contract.alarms import OnAlarm
from components.contract.component import Component
from components.contract.params import Params
from pipelines.language.nodes import Node
from pipelines.language.problems import Problems
from pipelines.recipe.grammar import StageWords
from pipelines.recipe.pools import Pool


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


def reaction(
    path: str,
    stage: Node,
    words: StageWords,
    component: Component,
    pool: Pool | None,
    *,
    keeps: bool,
    problems: Problems,
) -> OnAlarm:
    """Return what an alarm does to a stage; note where it is to return to a checkpoint and cannot.

    A default for all stages may meet some that cannot return to one; there it stops them.
    """
    if words.on_alarm != "rollback":
        return words.on_alarm
    given = stage.child("on_alarm")
    if not component.rolls_back:
        if given is not None:
            what = f"component {component.name!r} does not return to a checkpoint; set stop"
            problems.add(given.where, f"stage {path!r}, on_alarm: {what}")
        return "stop"
    where = (given or stage).where
    if not keeps:
        what = "rollback returns to a checkpoint that is kept: set `keep_partial: every N`, too"
        problems.add(where, f"stage {path!r}, on_alarm: {what}")
    processes = _processes(pool, words)
    if processes > 1:
        what = f"rollback is for stages of one process, and this one trains on {processes}; set stop"
        problems.add(where, f"stage {path!r}, on_alarm: {what}")
    return "rollback"


def _processes(pool: Pool | None, words: StageWords) -> int:
    if pool is None:
        return 1
    try:
        return pool.resources(words.pool, words.backend).world_size
    except ValueError:  # what is wrong with the backend is told where it is checked
        return 1
