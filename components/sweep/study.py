"""Optuna on the trials of a sweep: the next trials by TPE, and the importance of parameters by fANOVA.

Nothing is kept between calls: a study is built from the trials in the order of their numbers, so that what is drawn
depends on the results and the seed alone, whatever ended first.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from components.sweep.outcome import last_rung, value_of
from components.sweep.params import Dimension, SweepParams, Trial

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.study import Study
    from optuna.trial import FrozenTrial

VERSIONED_PACKAGES = ("optuna", "scikit-learn")
DIGITS = 4
"""Significant digits of drawn values: enough to search with, and the same on every CPU."""
MIN_TRIALS = 4
"""Finished trials below which importances say nothing at all."""


def draw(params: SweepParams, seed: int) -> dict[int, dict[str, Any]]:
    """Return number -> values of the swept parameters for the trials to draw, by TPE given the results so far.

    Trials of one round do not see one another's results; each counts as a bad one for the next (constant liar), so
    that they spread.
    """
    study = _study(params, _seed(seed, params.draw))
    distributions = {name: _distribution(dimension) for name, dimension in params.space.items()}
    found = {}
    for number in params.draw:
        asked = study.ask(distributions).params
        found[number] = {name: _value(params.space[name], asked[name]) for name in params.space}
    return found


def importances(params: SweepParams, seed: int) -> dict[str, float]:
    """Return parameter -> share of the variance, greatest first; empty for too few trials or a flat objective."""
    finished = [value for trial in params.trials if (value := value_of(trial)) is not None]
    varied = [name for name in params.space if len({json.dumps(trial.params[name]) for trial in params.trials}) > 1]
    if len(finished) < MIN_TRIALS or len(set(finished)) < 2 or not varied:
        return {}
    from optuna.importance import FanovaImportanceEvaluator, get_param_importances

    evaluator = FanovaImportanceEvaluator(seed=_seed(seed, ()))
    found = get_param_importances(_study(params, 0), evaluator=evaluator, params=varied)
    return {name: round(float(share), DIGITS) for name, share in found.items()}


def _study(params: SweepParams, seed: int) -> Study:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=1, constant_liar=True)
    study = optuna.create_study(direction=params.direction, sampler=sampler)
    for trial in sorted(params.trials, key=lambda trial: trial.number):
        study.add_trial(_frozen(params, trial))
    return study


def _frozen(params: SweepParams, trial: Trial) -> FrozenTrial:
    from optuna.trial import TrialState, create_trial

    value, rung = value_of(trial), last_rung(trial)
    state = TrialState.COMPLETE if value is not None else TrialState.PRUNED if rung else TrialState.FAIL
    return create_trial(
        state=state,
        value=value,
        params={name: _index(dimension, trial.params[name]) for name, dimension in params.space.items()},
        distributions={name: _distribution(dimension) for name, dimension in params.space.items()},
        intermediate_values=dict([rung]) if rung else {},
    )


def _distribution(dimension: Dimension) -> BaseDistribution:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if dimension.choices:  # by position: choices may be lists and mappings
        return CategoricalDistribution(tuple(range(len(dimension.choices))))
    if dimension.whole:
        step = int(dimension.step or 1)
        return IntDistribution(int(dimension.low), int(dimension.high), log=dimension.log, step=step)
    return FloatDistribution(dimension.low, dimension.high, log=dimension.log, step=dimension.step)


def _index(dimension: Dimension, value: Any) -> Any:
    return dimension.choices.index(value) if dimension.choices else value


def _value(dimension: Dimension, drawn: Any) -> Any:
    """Return a drawn number as trials get it; a choice is its position."""
    if dimension.choices or dimension.whole or dimension.step:
        return drawn
    return min(max(float(f"{drawn:.{DIGITS}g}"), dimension.low), dimension.high)


def _seed(seed: int, numbers: Mapping[int, Any] | tuple[int, ...]) -> int:
    digest = hashlib.sha256(f"{seed}/{list(numbers)}".encode()).digest()
    return int.from_bytes(digest[:4], "big")
