"""Reproductions: the hallmark of a finished run, measured and judged.

Seeds are paired, so their common luck cancels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from components.contract.errors import InputError
from components.contract.expressions import Expression, Lookup, Value
from components.measure.intervals import Interval, seed_interval
from pipelines.methods.looks import Look, plan_looks
from pipelines.methods.verdict import Decision, Verdict, decide
from pipelines.plan.plan import Plan
from pipelines.recipe.hallmark import ARM, Hallmark, Measure
from pipelines.recipe.hallmark_words import ConditionWords
from pipelines.runs.measured import Measured

DIGITS = 6
"""Significant digits of effects: a record holds no more, and its verdicts must follow from it."""
BUDGET_TOLERANCE = 0.05
"""How far the arms' mean budgets may lie apart, as a share of the smallest."""


class Unmeasured(InputError):
    """An arm has no such quantity."""


@dataclass(frozen=True)
class Finding:
    """One measured quantity: its values, and its effects where it has some."""

    measure: Measure
    arms: Mapping[str, tuple[float, ...]]
    """Arm -> value at each seed."""
    effects: tuple[float, ...] = ()
    """At each seed."""

    @property
    def interval(self) -> Interval:
        """Return the mean effect with Student's t interval over all seeds (95 %, of one look)."""
        return seed_interval(self.effects)


@dataclass(frozen=True)
class Condition:
    """A precondition or a sign of activity, measured."""

    words: ConditionWords
    finding: Finding

    @property
    def holds(self) -> bool:
        """Return whether the mean over seeds meets it."""
        return self.words.holds(self.finding.interval.value)


@dataclass(frozen=True)
class Reproduction:
    """A claim, its measurements and the verdicts."""

    slug: str
    hallmark: Hallmark
    claims: Mapping[str, Finding]
    preconditions: Mapping[str, Condition]
    active: Mapping[str, Condition]
    secondary: Mapping[str, Finding]
    also: Mapping[str, Finding]
    budget: Finding | None
    arm_seconds: Mapping[str, float]
    """Arm -> mean seconds of its own stages for one seed."""
    shared_seconds: float
    """Seconds of the stages that all arms share, divided by the number of seeds."""

    @property
    def looks(self) -> tuple[Look, ...]:
        """Return all looks that the claim may take."""
        return plan_looks(self.hallmark.words.looks)

    @cached_property
    def decisions(self) -> Mapping[str, Decision | None]:
        """Return the decision on the mechanism and on the outcome; None while looks are to come."""
        found = {}
        for part, finding in self.claims.items():
            words = getattr(self.hallmark.words, part)
            found[part] = decide(words.direction, words.floor, finding.effects, self.looks)
        return found

    @property
    def invalid(self) -> str | None:
        """Return why nothing may be judged: arms with unequal budgets; None if they are equal or not counted."""
        if self.budget is None:
            return None
        means = {arm: sum(values) / len(values) for arm, values in self.budget.arms.items()}
        low, high = min(means, key=means.__getitem__), max(means, key=means.__getitem__)
        if means[high] <= means[low] * (1 + BUDGET_TOLERANCE):
            return None
        spent = self.budget.measure.value.source
        return f"{spent}: {high} spends {means[high]:.6g}, {low} {means[low]:.6g}, more than 5 % apart"

    @property
    def halted(self) -> Verdict | None:
        """Return the verdict on all claims where they cannot be tested; None where they can."""
        if self.invalid is not None:
            return Verdict.INVALID
        if not all(condition.holds for condition in self.preconditions.values()):
            return Verdict.PRECONDITION_ABSENT
        return None if all(condition.holds for condition in self.active.values()) else Verdict.OPERATOR_INACTIVE

    @property
    def is_settled(self) -> bool:
        """Return whether no further look can change a verdict."""
        return self.halted is not None or all(decision is not None for decision in self.decisions.values())

    def verdict(self, part: str) -> Verdict:
        """Return the verdict on the mechanism or the outcome; `undecided` while looks are to come."""
        decision = self.decisions[part]
        return self.halted or (decision.verdict if decision else Verdict.UNDECIDED)


def measure(slug: str, plan: Plan, measured: Measured) -> Reproduction:
    """Return the measurement of the recipe's hallmark in a finished run of `plan`.

    Raises InputError if a stage did not run or did not measure what the hallmark needs.
    """
    hallmark = plan.recipe.hallmark
    if hallmark is None:
        raise InputError(f"recipe {plan.recipe.name!r} has no 'hallmark', so there is nothing to reproduce")
    words = hallmark.words

    def of(found: Measure) -> Finding:
        return find(found, hallmark, measured)

    def condition(words: ConditionWords, found: Measure) -> Condition:
        names = found.effect.names if found.effect else ()
        return Condition(words, find(found, hallmark, measured, [arm for arm in hallmark.arms if arm in names]))

    arm_seconds, shared = _seconds(plan, hallmark, measured)
    return Reproduction(
        slug,
        hallmark,
        claims={part: of(found) for part, found in hallmark.claims.items()},
        preconditions={n: condition(words.preconditions[n], found) for n, found in hallmark.preconditions.items()},
        active={name: condition(words.active[name], found) for name, found in hallmark.active.items()},
        secondary={name: of(found) for name, found in hallmark.secondary.items()},
        also={name: of(found) for name, found in hallmark.also.items()},
        budget=None if hallmark.budget is None else find(hallmark.budget, hallmark, measured, hallmark.arms),
        arm_seconds=arm_seconds,
        shared_seconds=shared,
    )


def find(found: Measure, hallmark: Hallmark, measured: Measured, of: Sequence[str] | None = None) -> Finding:
    """Return one quantity of a finished run at every seed, of every arm that measured it, or of all of these arms.

    Raises InputError where an arm lacks it that the effect names, or all do.
    """
    names = hallmark.arms if of is None else of
    needed = of if of is not None else found.effect.names if found.effect else ()
    arms: dict[str, tuple[float, ...]] = {}
    for arm in names:
        try:
            arms[arm] = tuple(_value(found, arm, seed, measured) for seed in hallmark.seeds)
        except Unmeasured:
            if arm in needed or (arm == names[-1] and not arms):
                raise
    return Finding(found, arms, _effects(found, arms, hallmark.seeds))


def _effects(found: Measure, arms: Mapping[str, Sequence[float]], seeds: Sequence[int]) -> tuple[float, ...]:
    if found.effect is None:
        return ()
    effects = []
    for index, seed in enumerate(seeds):
        values: dict[str, Value] = {arm: of_seeds[index] for arm, of_seeds in arms.items()}
        effects.append(rounded(_number(found.effect, values.__getitem__, f"seed {seed}")))
    return tuple(effects)


def _value(found: Measure, arm: str, seed: int, measured: Measured) -> float:
    sources = found.sources[arm, seed]
    return _number(found.value, lambda name: measured.value(*sources[name]), f"arm {arm!r}, seed {seed}")


def _number(expression: Expression, lookup: Lookup, where: str) -> float:
    """Return an expression's value; raise InputError where it has none, such as for a run that diverged."""
    try:
        found = expression.evaluate(lookup)
    except InputError as error:
        raise Unmeasured(f"{where}: {error}") from None
    if isinstance(found, str) or not math.isfinite(found):
        raise InputError(f"{where}: {expression.source} is {found}, so nothing can be judged")
    return float(found)


def _seconds(plan: Plan, hallmark: Hallmark, measured: Measured) -> tuple[dict[str, float], float]:
    """Return the mean time per seed of each arm, and of the stages that all arms share."""
    jobs = [(job.labels, measured.seconds(job.stage)) for job in plan.jobs]
    count = len(hallmark.seeds)
    arms = {arm: sum(s for labels, s in jobs if labels.get(ARM) == arm) / count for arm in hallmark.arms}
    return arms, sum(s / count for labels, s in jobs if ARM not in labels)


def rounded(value: float) -> float:
    """Return a number with the digits of a record."""
    return float(f"{value:.{DIGITS}g}")
