"""A sweep in words: what a plan shows of it."""

from __future__ import annotations

from typing import Any

from pipelines.recipe.sweep.section import Sweep

MAX_LINES = 12


def sweep_lines(sweep: Sweep) -> list[str]:
    """Return what a sweep does, one line each: how many trials, what is known of them, and who is stopped."""
    words = sweep.words
    rounds = f" in {sweep.rounds} rounds" if sweep.rounds > 1 else ""
    what = f"{words.direction} {words.objective} over {', '.join(sweep.space)}"
    lines = [f"sweep: {len(sweep.trials)} trials by {words.sampler}{rounds}, {what}"]
    known = [trial for trial in sweep.trials if trial.values is not None]
    for trial in known[:MAX_LINES]:
        values = ", ".join(f"{name} = {value}" for name, value in (trial.values or {}).items())
        lines.append(f"  trial {trial.number}: {values}")
    if len(known) > MAX_LINES:
        lines.append(f"  and {len(known) - MAX_LINES} more")
    if drawn := sorted(sweep.drawn):
        lines.append(f"  trials {drawn[0]} to {drawn[-1]}: drawn in the run, each round from the results before it")
    for rung in words.stop:
        limit = f"the best {rung.keep:.0%}" if rung.keep is not None else f"those of at least {rung.at_least}"
        limit = limit if rung.at_most is None else f"those of at most {rung.at_most}"
        lines.append(f"  stop: by {rung.at}, {limit} of the trials so far go on")
    if words.on_failure == "skip":
        lines.append("  a trial that fails counts as failed, and the others go on")
    return lines


def sweep_json(sweep: Sweep) -> dict[str, Any]:
    """Return a sweep for scripts; the values of trials that the run draws are null."""
    trials = [
        {"number": trial.number, "round": trial.round, "params": trial.values and dict(trial.values)}
        for trial in sweep.trials
    ]
    return sweep.words.model_dump(mode="json", exclude_none=True) | {"rounds": sweep.rounds, "trials": trials}
