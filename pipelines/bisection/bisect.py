"""The bisection: the ends are told apart, mixtures are judged at more and more seeds, causes are named."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from components.contract.errors import InputError
from components.measure.intervals import Interval
from pipelines.bisection.differences import Difference
from pipelines.bisection.oracle import Judged, judge
from pipelines.bisection.search import Cause, Exhausted, Search, Set, Verdict
from pipelines.bisection.trials import HalfFailed, Trials
from pipelines.methods.looks import Look

Tell = Callable[[str], None]
MAX_NAMED = 3
SIDES = ("GOOD", "BAD")
LIKE = {Verdict.GOOD: "like GOOD", Verdict.BAD: "like BAD", Verdict.UNDECIDED: "undecided"}


@dataclass(frozen=True)
class Tried:
    """One mixture, and what it was like."""

    chosen: Set
    verdict: Verdict
    values: tuple[float, ...] = ()
    """The metric by seed."""
    judged: Judged | None = None
    """None for one that does not run."""
    look: Look | None = None
    new_seconds: float = 0.0
    reason: str = ""
    """Why it does not run."""


@dataclass(frozen=True)
class Found:
    """What a bisection found."""

    seeds: tuple[int, ...]
    """All that ran, in order."""
    good: tuple[float, ...]
    bad: tuple[float, ...]
    """The metric of the ends by seed."""
    effect: Interval
    """Of BAD less GOOD, at the look that told the ends apart."""
    differences: tuple[Difference, ...]
    tried: tuple[Tried, ...]
    causes: tuple[Cause, ...]
    rest: Verdict | None
    """What BAD is like without all causes; None if nothing else differs, or if the search ended before."""
    open: Set = frozenset()
    """Differences among which a cause is that was not found before the tests were used up."""
    ends_seconds: float = 0.0
    """What the stages of the ends took that were not in the store."""
    notes: tuple[str, ...] = ()
    """Where recorded runs do not repeat."""
    run_seconds: float = 0.0
    """What all stages of GOOD take at one seed."""

    @property
    def halves_seconds(self) -> float:
        """Return what the stages of the halves took that were not in the store."""
        return sum(one.new_seconds for one in self.tried)

    @property
    def worth(self) -> float:
        """Return the same in runs of GOOD at one seed."""
        return self.halves_seconds / self.run_seconds if self.run_seconds else 0.0

    def tried_of(self, chosen: Set) -> Tried | None:
        """Return the trial of a mixture; None if it was not tried. BAD is the one with all differences."""
        return next((one for one in self.tried if one.chosen == chosen), None)

    def effect_of(self, chosen: Set) -> Interval | None:
        """Return the difference of a mixture from GOOD, paired by seed, at the confidence of its look."""
        if len(chosen) == len(self.differences):
            return self.effect
        one = self.tried_of(chosen)
        if one is None or one.look is None:
            return None
        return one.look.interval([value - good for value, good in zip(one.values, self.good, strict=False)])


@dataclass
class Bisection:
    """Runs one bisection."""

    trials: Trials
    differences: Sequence[Difference]
    looks: Sequence[Look]
    first_seed: int
    max_halves: int
    tell: Tell
    recorded: Sequence[float | None] = (None, None)
    """What recorded runs measured at the first seed."""
    _tried: dict[Set, Tried] = field(default_factory=dict)
    _ends: tuple[list[float], list[float]] = field(default_factory=lambda: ([], []))
    _sign: float = 1.0

    @property
    def everything(self) -> Set:
        """Return all differences, which make GOOD into BAD."""
        return frozenset(range(len(self.differences)))

    def run(self) -> Found:
        """Return the causes.

        Raises InputError for ends that do not run or do not differ in the metric.
        """
        effect = self._tell_ends_apart()
        search = Search(len(self.differences), self._test)
        left: Set = frozenset()
        try:
            search.run()
        except Exhausted:
            left = search.bad - search.good
        good, bad = self._ends
        return Found(
            seeds=tuple(self._seeds(len(good))),
            good=tuple(good),
            bad=tuple(bad),
            effect=effect,
            differences=tuple(self.differences),
            tried=tuple(self._tried.values()),
            causes=tuple(search.causes),
            rest=None if left else search.rest,
            open=left,
            ends_seconds=self.trials.spent(frozenset()) + self.trials.spent(self.everything),
            notes=tuple(self._not_repeated()),
            run_seconds=self.trials.at(frozenset(), self.first_seed).all_seconds,
        )

    def _seeds(self, count: int) -> list[int]:
        return [self.first_seed + place for place in range(count)]

    def _tell_ends_apart(self) -> Interval:
        for look in self.looks:
            self.tell(f"GOOD and BAD at {look.seeds} seeds")
            self._measure_ends(look.seeds)
            good, bad = self._ends
            effect = look.interval([b - a for a, b in zip(good, bad, strict=True)])
            self.tell(f"BAD less GOOD: {interval_text(effect)} over {look.seeds} seeds")
            if effect.excludes_zero():
                self._sign = math.copysign(1.0, effect.value)
                return effect
        raise InputError(
            f"GOOD and BAD do not differ in the metric: {interval_text(effect)} over {look.seeds} seeds"
            + "".join(f"; {note}" for note in self._not_repeated() or ["more of them may tell: --max-seeds"])
        )

    def _not_repeated(self) -> list[str]:
        """Return where a recorded run measured something else than it does now, at the same seed."""
        pairs = zip(SIDES, self.recorded, self._ends, strict=True)
        return [
            f"{side} measured {then:.6g} when it was recorded and {now[0]:.6g} now, at seed {self.first_seed}: "
            "code that was not committed, packages or the machine are other ones"
            for side, then, now in pairs
            if then is not None and not math.isclose(then, now[0], rel_tol=1e-9)
        ]

    def _measure_ends(self, count: int) -> None:
        for values, chosen, title in zip(self._ends, (frozenset[int](), self.everything), SIDES, strict=True):
            for seed in self._seeds(count)[len(values) :]:
                try:
                    values.append(self.trials.at(chosen, seed).value)
                except HalfFailed as failed:
                    raise InputError(f"{title} does not run at seed {seed}: {failed}") from None
                if not math.isfinite(values[-1]):
                    raise InputError(f"{title} measures {values[-1]} at seed {seed}, so nothing can be compared")

    def _test(self, chosen: Set) -> Verdict:
        if chosen == self.everything:
            return Verdict.BAD
        if not chosen:
            return Verdict.GOOD
        if chosen not in self._tried:
            if len(self._tried) >= self.max_halves:
                raise Exhausted
            place = len(self._tried) + 1
            self.tell(f"half {place}: GOOD with {self._named(chosen)}")
            self._tried[chosen] = self._try(chosen)
            self.tell(f"half {place}: {self._in_words(self._tried[chosen])}")
        return self._tried[chosen].verdict

    def _try(self, chosen: Set) -> Tried:
        """Judge a mixture at the first look that decides, or at the last."""
        found = Tried(chosen, Verdict.UNDECIDED)
        values: list[float] = []
        for look in self.looks:
            try:
                values += [self.trials.at(chosen, seed).value for seed in self._seeds(look.seeds)[len(values) :]]
            except HalfFailed as failed:
                spent = self.trials.spent(chosen)
                return Tried(chosen, Verdict.FAILED, tuple(values), new_seconds=spent, reason=str(failed))
            spent = self.trials.spent(chosen)
            if not all(map(math.isfinite, values)):
                return Tried(
                    chosen, Verdict.FAILED, tuple(values), new_seconds=spent, reason="the metric is not finite"
                )
            self._measure_ends(look.seeds)
            good, bad = (of[: look.seeds] for of in self._ends)
            judged = judge(values, good, bad, self._sign, look)
            found = Tried(chosen, judged.verdict, tuple(values), judged, look, spent)
            if found.verdict is not Verdict.UNDECIDED:
                break
        return found

    def _named(self, chosen: Set) -> str:
        if len(chosen) <= MAX_NAMED:
            return ", ".join(self.differences[number].name for number in sorted(chosen))
        return f"{len(chosen)} of {len(self.differences)} differences"

    def _in_words(self, one: Tried) -> str:
        if one.verdict is Verdict.FAILED:
            return f"does not run: {one.reason}"
        mean, like = sum(one.values) / len(one.values), LIKE[one.verdict]
        return f"{like}, {mean:.4g} over {len(one.values)} seeds"


def interval_text(interval: Interval) -> str:
    """Return a difference with its interval."""
    if not math.isfinite(interval.low):
        return f"{interval.value:+.3g} [one seed: unknown]"
    return f"{interval.value:+.3g} [{interval.low:+.3g}, {interval.high:+.3g}]"
