"""Delta debugging: the smallest sets of differences that make GOOD bad.

Zeller and Hildebrandt 2002, Simplifying and Isolating Failure-Inducing Input. Their dd narrows the gap between a good
and a bad mixture to one difference, in about log2 tests; what that difference needs beside it is then found in the same
way among what the good mixture has, until the set alone is bad. Like ddmin's, the set is 1-minimal: without any one of
its members it is not bad. A cause that is enough by itself is taken away, and the search goes on for a further one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

Set = frozenset[int]


class Verdict(StrEnum):
    """What a mixture is like."""

    GOOD = "good"
    BAD = "bad"
    UNDECIDED = "undecided"
    FAILED = "does not run"


Test = Callable[[Set], Verdict]
DECIDED = (Verdict.GOOD, Verdict.BAD)


@dataclass(frozen=True)
class Cause:
    """A set of differences that makes GOOD bad, and of which nothing can be left out."""

    members: tuple[Set, ...]
    """Each either one difference, or several that no test tells apart."""

    @property
    def all(self) -> Set:
        """Return all of its differences."""
        return frozenset().union(*self.members)


class Exhausted(Exception):
    """The tests that a search may make are used up."""


class Search:
    """A search among differences 0 to count - 1, in order, with what it has found so far."""

    def __init__(self, count: int, test: Test) -> None:
        """`test` says what GOOD with some of them is like: good without any, bad with all. It may raise Exhausted."""
        self._test = test
        self.good: Set = frozenset()
        self.bad: Set = frozenset(range(count))
        """The good and the bad set between which it is searching: a cause is among what the second has more."""
        self.causes: list[Cause] = []
        self.rest: Verdict | None = None
        """What BAD is like without all causes; None if nothing else differs, or as long as that is open."""

    def run(self) -> None:
        """Find every cause that is enough by itself."""
        rest = self.bad
        while True:
            self.causes.append(self._minimal(rest))
            rest -= self.causes[-1].all
            self.rest = self._test(rest) if rest else None
            if self.rest is not Verdict.BAD:
                return

    def _minimal(self, bad: Set) -> Cause:
        """Return a minimal bad subset of a bad set."""
        members: list[Set] = []
        kept: Set = frozenset()
        while True:
            self.good, self.bad = kept, bad
            self._isolate()
            members.append(self.bad - self.good)
            kept |= members[-1]
            bad = self.bad
            if kept == bad or self._test(kept) is Verdict.BAD:
                break
        for member in members[:-1]:  # the last one is needed: what it was added to was not bad
            if self._test(kept - member) is Verdict.BAD:
                members.remove(member)
                kept -= member
        return Cause(tuple(members))

    def _isolate(self) -> None:
        """Bring the good and the bad set as close to one another as tests can tell (dd)."""
        pieces = 2
        while (size := len(self.bad - self.good)) > 1:
            parts = _split(sorted(self.bad - self.good), min(pieces, size))
            mixtures = (mixture for part in parts for mixture in (self.good | part, self.bad - part))
            if any(self._narrows(mixture) for mixture in mixtures):
                pieces = 2
            elif pieces >= size:
                return
            else:
                pieces *= 2

    def _narrows(self, mixture: Set) -> bool:
        """Test a mixture, and put it in the place of an end if that is decided."""
        verdict = self._test(mixture)
        if verdict is Verdict.GOOD:
            self.good = mixture
        elif verdict is Verdict.BAD:
            self.bad = mixture
        return verdict in DECIDED


def _split(numbers: Sequence[int], pieces: int) -> list[Set]:
    """Return the numbers in pieces of about the same size, the last ones first: what changes late costs least."""
    ends = [round(len(numbers) * piece / pieces) for piece in range(pieces + 1)]
    return [frozenset(numbers[start:end]) for start, end in pairwise(ends)][::-1]


def most_tests(count: int) -> int:
    """Return how many tests name one cause among so many differences, if each test decides."""
    return (count - 1).bit_length() + 2 if count > 1 else 0
