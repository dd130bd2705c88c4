"""The rule of selection, without any sampling: constraints, then the objective, then ties.

1. A candidate is eligible if it satisfies every constraint. Drops are paired by prompt against the baseline.
2. The best is the eligible candidate with the highest objective, or the lowest where it is to be small (the earliest
   of equals).
3. A candidate is tied with the best when the paired bootstrap interval of their difference does not lie above 0.
4. The tie rule chooses among the tied: the earliest, the highest entropy, or the best itself. With rule elbow the
   divergence from the baseline chooses among the eligible in its place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from components.contract.errors import StageFailed
from components.measure.intervals import Bootstrap, Interval
from components.select.elbow import elbow
from components.select.params import Constraint, SelectParams
from components.select.scores import Scores


@dataclass(frozen=True)
class ConstraintCheck:
    """One constraint on one candidate."""

    constraint: Constraint
    measured: Interval
    """The value for min_value; candidate minus baseline for max_drop."""
    shortfall: float
    """How far the limit is missed; 0 if satisfied."""

    @property
    def holds(self) -> bool:
        """Return whether the limit is satisfied."""
        return self.shortfall == 0

    def describe(self) -> str:
        """Return the check in words."""
        c, m = self.constraint, self.measured
        shown = f"{c.metric} on {c.domain}"
        span = f"{m.value:+.3f} [{m.low:+.3f}, {m.high:+.3f}]"
        limit = f"at most {c.max_drop:g} lost" if c.max_drop is not None else f"at least {c.min_value:g}"
        return f"{shown}: {span} against a limit of {limit}"


@dataclass(frozen=True)
class Judged:
    """One candidate with the measurements behind its verdict."""

    scores: Scores
    objective: Interval
    checks: tuple[ConstraintCheck, ...]
    behind: Interval | None = None
    """Best minus this one, paired; None if not compared."""
    status: str = "rejected"
    """chosen, tied, worse or rejected."""

    @property
    def shortfall(self) -> float:
        """Return the summed shortfall of all constraints."""
        return sum(check.shortfall for check in self.checks)


@dataclass(frozen=True)
class Choice:
    """The outcome of a selection."""

    chosen: int
    """Index into `judged`."""
    judged: tuple[Judged, ...]
    satisfied: bool
    """Whether the chosen candidate satisfies every constraint."""
    reason: str


def choose(
    candidates: Sequence[Scores], baseline: Scores | None, params: SelectParams, domains: Sequence[str], seed: int
) -> Choice:
    """Apply the rule; raise StageFailed if no candidate is eligible and `if_none` is fail."""
    bootstrap = params.bootstrap(seed)
    weights = params.objective.domain_weights(list(domains))
    judged = [
        Judged(
            scores=scores,
            objective=_objective(scores, params.objective.metric, weights, bootstrap),
            checks=tuple(_check(scores, baseline, constraint, bootstrap) for constraint in params.constraints),
        )
        for scores in candidates
    ]
    eligible = [index for index, entry in enumerate(judged) if not entry.shortfall]
    if not eligible:
        return _least_violation(judged, params)
    sign = -1.0 if params.objective.minimise else 1.0
    best = max(eligible, key=lambda index: (sign * judged[index].objective.value, -index))
    metric = params.objective.metric
    for index in eligible:
        behind = _difference(judged[best].scores, judged[index].scores, metric, weights, bootstrap, sign)
        status = "worse" if behind.low > 0 else "tied"
        judged[index] = replace(judged[index], behind=behind, status=status)
    tied = [index for index in eligible if judged[index].status == "tied"]
    bend = _elbow(eligible, judged, baseline, params, weights, bootstrap)
    chosen = _break_tie(tied, best, judged, params.tie_rule) if bend is None else bend
    judged[chosen] = replace(judged[chosen], status="chosen")
    reason = _reason(judged, best, tied, params) if bend is None else _reason_of_elbow(judged[chosen])
    return Choice(chosen, tuple(judged), True, reason)


def _elbow(
    eligible: Sequence[int],
    judged: Sequence[Judged],
    baseline: Scores | None,
    params: SelectParams,
    weights: Mapping[str, float],
    bootstrap: Bootstrap,
) -> int | None:
    """Return the candidate at the elbow of objective over divergence; None with another rule or without an elbow."""
    if params.rule != "elbow":
        return None
    assert baseline is not None
    start, sign = (
        _objective(baseline, params.objective.metric, weights, bootstrap),
        -1.0 if params.objective.minimise else 1.0,
    )
    gains = [sign * (judged[index].objective.value - start.value) for index in eligible]
    place = elbow(gains, [judged[index].scores.divergence or 0.0 for index in eligible])
    return None if place is None else eligible[place]


def _reason_of_elbow(chosen: Judged) -> str:
    return f"the elbow of the objective over the divergence from the baseline, at {chosen.scores.divergence:.3g} nats"


def _objective(scores: Scores, metric: str, weights: Mapping[str, float], bootstrap: Bootstrap) -> Interval:
    strata = [scores.values[metric, domain] for domain in weights]
    return bootstrap.weighted_interval(strata, list(weights.values()))


def _difference(
    first: Scores, second: Scores, metric: str, weights: Mapping[str, float], bootstrap: Bootstrap, sign: float
) -> Interval:
    strata = [sign * (first.values[metric, domain] - second.values[metric, domain]) for domain in weights]
    return bootstrap.weighted_interval(strata, list(weights.values()))


def _check(scores: Scores, baseline: Scores | None, constraint: Constraint, bootstrap: Bootstrap) -> ConstraintCheck:
    values = scores.values[constraint.metric, constraint.domain]
    if constraint.max_drop is None:
        assert constraint.min_value is not None
        measured, limit = bootstrap.mean_interval(values), constraint.min_value
    else:
        assert baseline is not None
        kept = baseline.values[constraint.metric, constraint.domain]
        measured, limit = bootstrap.mean_interval(values - kept), -constraint.max_drop
    value = measured.low if constraint.confident else measured.value
    # without a measurement there is no evidence that the limit is satisfied; 1 is the whole range of a metric
    shortfall = 1.0 if measured.n == 0 else max(0.0, limit - value)
    return ConstraintCheck(constraint, measured, shortfall if shortfall > 1e-12 else 0.0)


def _least_violation(judged: list[Judged], params: SelectParams) -> Choice:
    if params.if_none == "fail":
        lines = [
            f"  {entry.scores.name}: " + "; ".join(check.describe() for check in entry.checks if not check.holds)
            for entry in judged
        ]
        raise StageFailed(
            f"none of {len(judged)} candidates holds the constraints; loosen them, add candidates, or set "
            "if_none: best_effort\n" + "\n".join(lines)
        )
    sign = -1.0 if params.objective.minimise else 1.0
    chosen = min(range(len(judged)), key=lambda i: (judged[i].shortfall, -sign * judged[i].objective.value, i))
    judged[chosen] = replace(judged[chosen], status="chosen")
    reason = f"no candidate holds the constraints; this one misses them least, by {judged[chosen].shortfall:.3f} in all"
    return Choice(chosen, tuple(judged), False, reason)


def _break_tie(tied: Sequence[int], best: int, judged: Sequence[Judged], rule: str) -> int:
    if rule == "earliest":
        return min(tied)
    if rule == "highest_entropy":
        return max(tied, key=lambda index: (judged[index].scores.entropy, -index))
    return best


def _reason(judged: Sequence[Judged], best: int, tied: Sequence[int], params: SelectParams) -> str:
    if len(tied) == 1:
        return "the best eligible candidate, and no other is within its paired interval"
    others = f"{len(tied)} candidates cannot be told from the best, {judged[best].scores.name}"
    names = {"earliest": "the earliest", "highest_entropy": "the one with the highest entropy", "best": "the best"}
    return f"{others}, by paired {params.confidence:.0%} intervals; {names[params.tie_rule]} of them was taken"
