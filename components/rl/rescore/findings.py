"""What another reward would have changed: ranks within groups, advantages, and groups that flip. Does not import torch.

A group gains a signal where its rewards were all equal and differ now, and loses it the other way round. It flips where
a response whose advantage was positive has a negative one now, or the reverse: what was made likelier would have been
made less likely.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from components.contract.samples import shortened
from components.measure.intervals import Bootstrap

if TYPE_CHECKING:
    from components.rl.rescore.judging import Judged

GAINED, LOST, FLIPPED = "gain a signal", "lose their signal", "flip"
SAME, SILENT = "keep their signs", "have no signal"
KINDS = (FLIPPED, GAINED, LOST, SAME, SILENT)
MAX_SHOWN = 20
MAX_RESPONSES = 8
HEAD, TAIL = 400, 200
"""Characters of a response that an example keeps."""
EQUAL = 1e-9
"""Rewards and advantages closer than this are equal."""


@dataclass(frozen=True)
class Group:
    """The responses to one prompt of one step, with both rewards."""

    step: int
    prompt: str
    texts: list[str]
    then: list[float]
    now: list[float]
    advantage_then: list[float]
    advantage_now: list[float]

    @property
    def kind(self) -> str:
        """Return what becomes of the group."""
        before, after = _differs(self.then), _differs(self.now)
        if before != after:
            return GAINED if after else LOST
        if not before:
            return SILENT
        return FLIPPED if self.flipped else SAME

    @property
    def flipped(self) -> list[int]:
        """Return the responses whose advantage has the other sign."""
        pairs = zip(self.advantage_then, self.advantage_now, strict=True)
        return [at for at, (then, now) in enumerate(pairs) if _sign(then) * _sign(now) < 0]

    @property
    def size_of_flip(self) -> float:
        """Return how much of the advantages goes the other way."""
        return sum(abs(self.advantage_then[at]) + abs(self.advantage_now[at]) for at in self.flipped)

    @property
    def tau(self) -> float:
        """Return Kendall's tau-b of both rewards; NaN where one of them has all responses equal."""
        return kendall_tau(self.then, self.now)

    @property
    def has_another_best(self) -> bool:
        """Return whether no response is best by both rewards."""
        return not set(_best(self.then)) & set(_best(self.now))

    def example(self, question: str = "") -> dict[str, Any]:
        """Return the group for a page: its responses from the best to the worst by the new reward."""
        order = sorted(range(len(self.now)), key=lambda at: (-_or_lowest(self.now[at]), -_or_lowest(self.then[at]), at))
        flipped = set(self.flipped)
        rows = [
            {
                "text": shortened(self.texts[at], HEAD, TAIL),
                "then": _plain(self.then[at]),
                "now": _plain(self.now[at]),
                "advantage_then": _plain(self.advantage_then[at]),
                "advantage_now": _plain(self.advantage_now[at]),
                "flips": at in flipped,
            }
            for at in order
        ]
        keep = sorted(range(len(rows)), key=lambda at: (not rows[at]["flips"], at))[:MAX_RESPONSES]
        return {
            "step": self.step,
            "prompt": self.prompt,
            "question": question,
            "kind": self.kind,
            "num_responses": len(rows),
            "num_flipped": len(flipped),
            "responses": [rows[at] for at in sorted(keep)],
        }


def groups_of(judged: Judged) -> Iterator[Group]:
    """Yield the groups of a step, without responses that no reward could judge."""
    places: dict[int, list[int]] = {}
    for at, group in enumerate(judged.groups):
        if not (math.isnan(judged.then[at]) or math.isnan(judged.now[at])):
            places.setdefault(group, []).append(at)
    for found in places.values():
        yield Group(
            step=judged.step,
            prompt=judged.prompts[found[0]],
            texts=[judged.texts[at] for at in found],
            then=[judged.then[at] for at in found],
            now=[judged.now[at] for at in found],
            advantage_then=[judged.advantage_then[at] for at in found],
            advantage_now=[judged.advantage_now[at] for at in found],
        )


@dataclass
class Findings:
    """Counts over steps, and the groups that flip most."""

    seed: int = 0
    steps: list[dict[str, Any]] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)
    num_responses: int = 0
    num_unjudged_now: int = 0
    num_unjudged_then: int = 0
    num_signs: int = 0
    """Responses with an advantage by both rewards."""
    num_flipped: int = 0
    num_other_best: int = 0
    """Of the groups with a signal by both rewards."""
    taus: dict[str, list[float]] = field(default_factory=dict)
    """Of groups, by prompt: groups of one prompt are not independent."""
    shown: list[Group] = field(default_factory=list)
    _then: list[float] = field(default_factory=list)
    _now: list[float] = field(default_factory=list)

    def add(self, judged: Judged) -> None:
        """Add a step."""
        groups = list(groups_of(judged))
        kinds = Counter(group.kind for group in groups)
        self.kinds += kinds
        self.num_responses += len(judged.then)
        self.num_unjudged_then += sum(map(math.isnan, judged.then))
        self.num_unjudged_now += sum(map(math.isnan, judged.now))
        for group in groups:
            self._add_group(group)
        known = [value for group in groups for value in group.then], [value for group in groups for value in group.now]
        self.steps.append(
            {
                "step": judged.step,
                "then": _mean(known[0]),
                "now": _mean(known[1]),
                "cosine": _plain(
                    cosine([a for g in groups for a in g.advantage_then], [a for g in groups for a in g.advantage_now])
                ),
                "tau": _mean([group.tau for group in groups]),
                **{kind: kinds[kind] for kind in KINDS},
            }
        )
        changed = [group for group in groups if group.kind == FLIPPED]
        self.shown = sorted([*self.shown, *changed], key=lambda group: (-group.size_of_flip, group.step))[:MAX_SHOWN]

    def _add_group(self, group: Group) -> None:
        pairs = list(zip(group.advantage_then, group.advantage_now, strict=True))
        self.num_signs += sum(bool(_sign(then) and _sign(now)) for then, now in pairs)
        self.num_flipped += len(group.flipped)
        if not math.isnan(group.tau):
            self.taus.setdefault(group.prompt, []).append(group.tau)
            self.num_other_best += group.has_another_best
        self._then += group.advantage_then
        self._now += group.advantage_now

    def to_json(self, question: Callable[[str], str] = lambda prompt: "") -> dict[str, Any]:
        """Return the findings for scripts and the page; `question` gives the text of a prompt by its id."""
        by_prompt = [math.fsum(found) / len(found) for found in self.taus.values()]
        tau = Bootstrap(seed=self.seed).mean_interval(by_prompt).to_json() if by_prompt else None
        both = self.kinds[FLIPPED] + self.kinds[SAME]
        return {
            "num_steps": len(self.steps),
            "num_groups": sum(self.kinds.values()),
            "num_responses": self.num_responses,
            "num_unjudged_then": self.num_unjudged_then,
            "num_unjudged_now": self.num_unjudged_now,
            "kinds": {kind: self.kinds[kind] for kind in KINDS},
            "num_with_both_signals": both,
            "num_other_best": self.num_other_best,
            "num_signs": self.num_signs,
            "num_flipped": self.num_flipped,
            "tau": tau,
            "cosine": _plain(cosine(self._then, self._now)),
            "then": _mean([row["then"] for row in self.steps]),
            "now": _mean([row["now"] for row in self.steps]),
            "steps": self.steps,
            "groups": [group.example(question(group.prompt)) for group in self.shown],
        }


def kendall_tau(mine: Sequence[float], other: Sequence[float]) -> float:
    """Return Kendall's tau-b, (C - D) / sqrt((C + D + ties of one)(C + D + ties of the other)); NaN where all tie."""
    agree = left = right = 0
    for one, two in combinations(range(len(mine)), 2):
        a, b = _sign(mine[one] - mine[two]), _sign(other[one] - other[two])
        agree, left, right = agree + a * b, left + abs(a), right + abs(b)
    return agree / math.sqrt(left * right) if left and right else math.nan


def cosine(mine: Sequence[float], other: Sequence[float]) -> float:
    """Return the cosine of two vectors of advantages; NaN where one is 0."""
    a, b = np.array(mine, dtype=np.float64), np.array(other, dtype=np.float64)
    size = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / size if size else math.nan


def _differs(values: Sequence[float]) -> bool:
    return bool(values) and max(values) - min(values) > EQUAL


def _sign(value: float) -> int:
    return 0 if math.isnan(value) or abs(value) <= EQUAL else (1 if value > 0 else -1)


def _best(values: Sequence[float]) -> list[int]:
    return [at for at, value in enumerate(values) if max(values) - value <= EQUAL]


def _or_lowest(value: float) -> float:
    return -math.inf if math.isnan(value) else value


def _mean(values: Iterable[float | None]) -> float | None:
    found = [value for value in values if value is not None and not math.isnan(value)]
    return math.fsum(found) / len(found) if found else None


def _plain(value: float) -> float | None:
    return value if math.isfinite(value) else None
