"""What became of trials: finished with a value, stopped at a rung, failed, or without a value."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from components.sweep.params import Rung, SweepParams, Trial


def mean(values: Sequence[float | None]) -> float | None:
    """Return the mean over the cells of a matrix, None where one is missing."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


def value_of(trial: Trial) -> float | None:
    """Return the objective of a trial, None if it has none or one of its stages failed."""
    return None if failure_of(trial) else mean(trial.values)


def failure_of(trial: Trial) -> str | None:
    """Return why a trial failed: the error of its first stage that did; None if none did."""
    return next((error for error in trial.failures if error is not None), None)


def last_rung(trial: Trial) -> tuple[int, float] | None:
    """Return the position and the value of the last rung that measured a trial, None if none did."""
    measured = [(position, mean(values)) for position, values in enumerate(trial.rungs)]
    known = [(position, value) for position, value in measured if value is not None]
    return known[-1] if known else None


def best_of(params: SweepParams) -> Trial | None:
    """Return the finished trial with the best objective, the earlier one of equals; None if no trial finished."""
    sign = 1.0 if params.direction == "maximize" else -1.0
    finished = [
        (sign * value, -trial.number, trial) for trial in params.trials if (value := value_of(trial)) is not None
    ]
    return max(finished, key=lambda item: item[:2])[2] if finished else None


def going_on(rung: Rung, measured: Iterable[tuple[int, float | None]], direction: str) -> set[int]:
    """Return the numbers of those trials that a rung lets go on; ties with the last of them go on, too.

    `measured` are (number, value) of all trials so far. One without a value, stopped earlier, never goes on.
    """
    known = [(number, value) for number, value in measured if value is not None]
    if rung.at_least is not None:
        return {number for number, value in known if value >= rung.at_least}
    if rung.at_most is not None:
        return {number for number, value in known if value <= rung.at_most}
    assert rung.keep is not None
    sign = 1.0 if direction == "maximize" else -1.0
    ranked = sorted((sign * value for _, value in known), reverse=True)
    if not ranked:
        return set()
    kept = max(1, -int(-rung.keep * len(ranked) // 1))  # rounded up
    return {number for number, value in known if sign * value >= ranked[kept - 1]}
