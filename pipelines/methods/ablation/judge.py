"""Ablations: the protocol with one part of a method reset at a time, each as an arm of its own.

Each claim is judged again with the arm in the place of the method, at the same looks and floors; what a part carries is
the method's effect less the arm's, paired by seed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from components.contract.expressions import Value
from components.measure.intervals import Interval, seed_interval
from pipelines.methods.ablation.parts import Part, Parts
from pipelines.methods.ablation.spending import is_alike, match_steps, share_spent, step_overrides, steps_of
from pipelines.methods.protocol import seeds_of
from pipelines.methods.reproduce import Finding, Reproduction, rounded
from pipelines.methods.verdict import Decision, Verdict, decide
from pipelines.recipe.hallmark_words import METHOD
from pipelines.recipe.recipe import Recipe

SHARE_OF = {"higher": "higher", "not_lower": "higher", "lower": "lower", "not_higher": "lower"}
"""Direction of a claim -> that of a part that serves it; a claim of `same` is served by nothing."""
CARRIES = {
    Verdict.SEEN: "carries it",
    Verdict.OPPOSITE: "works against it",
    Verdict.NO_EFFECT: "does nothing",
    Verdict.UNDECIDED: "undecided",
}


@dataclass(frozen=True)
class Judged:
    """Effects by seed, and what they say; no decision while looks are to come."""

    effects: tuple[float, ...]
    decision: Decision | None

    @property
    def interval(self) -> Interval:
        """Return the mean with the deciding look's interval, else with that of 95 %."""
        return self.decision.interval if self.decision else seed_interval(self.effects)


@dataclass(frozen=True)
class Without:
    """A claim without one part."""

    claim: Judged
    """The arm in the place of the method."""
    carried: Judged | None
    """The method's effect less the arm's; None for a claim that nothing changes."""


@dataclass(frozen=True)
class Ablation:
    """A method's claims with all of its parts, and without each."""

    found: Reproduction
    """The measurement of all arms."""
    parts: Parts
    steps: Mapping[str, int] = field(default_factory=dict)
    """Arm -> its steps, where they were scaled so that it spends what the baseline spends."""

    @cached_property
    def whole(self) -> Reproduction:
        """Return the measurement of the recipe's own arms, whose budgets alone say whether the claim can be judged."""
        budget, added = self.found.budget, {part.arm for part in self.parts.found}
        if budget is not None:
            kept = {arm: values for arm, values in budget.arms.items() if arm not in added}
            budget = replace(budget, arms=kept)
        return replace(self.found, budget=budget)

    @cached_property
    def without(self) -> Mapping[str, Mapping[str, Without]]:
        """Return arm -> `mechanism` or `outcome` -> the claim without the arm's part."""
        return {part.arm: {name: self._judge(name, part) for name in self.found.claims} for part in self.parts.found}

    @property
    def is_settled(self) -> bool:
        """Return whether no further look can change a verdict."""
        if self.whole.halted is not None:
            return True
        judged = (one for claims in self.without.values() for one in claims.values())
        decided = all(one.claim.decision and (one.carried is None or one.carried.decision) for one in judged)
        return decided and all(self.whole.decisions.values())

    def verdict(self, part: Part, claim: str) -> Verdict:
        """Return the verdict on a claim without a part; `invalid` for an arm that spends other than the baseline."""
        if self.whole.halted is not None:
            return self.whole.halted
        decision = self.without[part.arm][claim].claim.decision
        if self.spends_unlike(part):
            return Verdict.INVALID
        return decision.verdict if decision else Verdict.UNDECIDED

    def carries(self, part: Part, claim: str) -> str:
        """Return what a part does for a claim, in words."""
        carried = self.without[part.arm][claim].carried
        if carried is None or self.whole.halted is not None or self.spends_unlike(part):
            return "-"
        return CARRIES[carried.decision.verdict] if carried.decision else CARRIES[Verdict.UNDECIDED]

    def spends_unlike(self, part: Part) -> bool:
        """Return whether an arm's mean budget lies more than 5 % from the baseline's."""
        share = self.share_spent(part.arm)
        return share is not None and not is_alike(share)

    def share_spent(self, arm: str) -> float | None:
        """Return an arm's mean budget as a share of the baseline's; None where the claim is about cost."""
        return None if self.found.budget is None else share_spent(self.found.budget, arm)

    def _judge(self, name: str, part: Part) -> Without:
        words, finding, looks = getattr(self.found.hallmark.words, name), self.found.claims[name], self.found.looks
        effects = effects_with(finding, part.arm)
        claim = Judged(effects, decide(words.direction, words.floor, effects, looks))
        if words.direction not in SHARE_OF:
            return Without(claim, None)
        less = tuple(rounded(own - other) for own, other in zip(finding.effects, effects, strict=True))
        return Without(claim, Judged(less, decide(SHARE_OF[words.direction], words.floor, less, looks)))


def effects_with(finding: Finding, arm: str) -> tuple[float, ...]:
    """Return the effects by seed with an arm in the place of the method."""
    effect = finding.measure.effect
    assert effect is not None  # a claim has one
    names = {name: arm if name == METHOD else name for name in finding.arms}
    found = []
    for place in range(len(finding.effects)):
        values: dict[str, Value] = {name: finding.arms[stands][place] for name, stands in names.items()}
        found.append(rounded(float(effect.evaluate(values.__getitem__))))
    return tuple(found)


RunAt = Callable[[Sequence[int], Sequence[str]], Reproduction]


def ablate(recipe: Recipe, parts: Parts, run_at: RunAt, counts: Sequence[int]) -> Ablation:
    """Return the ablation at the first look that settles every arm, or at the last.

    recipe: with the arms of all parts. `run_at` runs all arms with seeds and overrides; `counts` are the looks.
    """
    added, own = {part.arm for part in parts.found}, steps_of(recipe)
    first = seeds_of(recipe, counts[0])
    scaled = {arm: count for arm, count in own.items() if arm in added}
    steps = match_steps(scaled, lambda changed: run_at(first, step_overrides(changed))) if scaled else {}
    for count in counts:
        found = Ablation(run_at(seeds_of(recipe, count), step_overrides(steps)), parts, steps)
        if found.is_settled:
            break
    return found
