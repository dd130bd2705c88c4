"""What became of every prompt, each time that it was drawn: learned from, dropped for a reason, still pending, or lost.

Counts are of groups. They are in every checkpoint, so that a resumed stage accounts for what was drawn before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from components.rl.batch.batch import Batch, Prompt

LOST, DROPPED = "lost_prompts", "dropped_groups"
UNVERIFIED, ZERO_VARIANCE, PAST_THE_END = "unverified", "zero_variance", "past_the_end"


@dataclass
class Accounts:
    """Counts over the stage so far, and those of the step in progress."""

    drawn: int = 0
    """Prompts handed to a rollout."""
    added: int = 0
    """Groups that operators added, such as guidance and the variants of a rollout."""
    trained: int = 0
    """Groups with a gradient, or with a loss that has one without advantages."""
    dropped: dict[str, int] = field(default_factory=dict)
    """Reason -> groups."""
    waiting: dict[str, int] = field(default_factory=dict)
    """Prompt id -> draws that were begun and have brought no group yet."""
    astray: int = 0
    """Groups that came and were neither dropped for a reason nor learned from."""
    _step: Counter[str] = field(default_factory=Counter, repr=False, compare=False)
    """Of the step in progress: groups dropped, by reason."""
    _open: int = field(default=0, repr=False, compare=False)
    """Of the step in progress: groups whose end is still open."""
    _fresh: Counter[str] = field(default_factory=Counter, repr=False, compare=False)
    """Groups that came since they were last looked at, by prompt id."""

    def begin(self) -> None:
        """Begin a step."""
        self._step, self._open, self._fresh = Counter(), 0, Counter()

    def draw(self, prompts: Sequence[Prompt], batch: Batch, rollout: str, *, begun: Sequence[Prompt] | None) -> None:
        """Note the prompts that a rollout got, and the groups that it returned.

        `begun`, of a rollout that draws ahead: the prompts of the draws that it began. A first step begins several of
        the same prompts; the last ones begin none, and drop their prompts as `past_the_end`. Their groups are those of
        draws begun before. Another rollout drops the prompts of which it returns no group.
        """
        chosen, found = _ids(prompts), _ids(batch.prompts)
        self.drawn += len(prompts)
        self._open += len(prompts)
        if begun is None:
            self._compare(f"by_{rollout}", chosen, found)
            return
        started = _ids(begun)
        self._compare(PAST_THE_END, chosen, started)
        waiting = Counter(self.waiting) + started
        self.added += (found - waiting).total()
        self.waiting = dict(waiting - found)
        self._open += found.total() - started.total()

    def change(self, reason: str, before: Batch, after: Batch) -> None:
        """Note the groups that an operator dropped from a batch, and those that it added."""
        self._compare(reason, _ids(before.prompts), _ids(after.prompts))

    def gathered(self, batch: Batch) -> None:
        """Note groups that a filter may have asked for."""
        self._fresh += _ids(batch.prompts)

    def take(self) -> None:
        """Forget the groups noted by `gathered`: they are the batch that the first filter gets."""
        self._fresh = Counter()

    def filtered(self, reason: str, before: Batch, after: Batch) -> None:
        """Note what a filter left of a batch and of the groups that it asked for."""
        self._compare(reason, _ids(before.prompts) + self._fresh, _ids(after.prompts))
        self._fresh = Counter()

    def learn(self, batch: Batch, *, silent_at_zero: bool) -> None:
        """Note the groups that are learned from; without advantage they have no gradient if `silent_at_zero`."""
        silent = 0
        if silent_at_zero and batch.num_responses:
            magnitude_s = batch.group_sum(batch.response_sum(batch.advantages.abs()))
            silent = int(torch.unique(batch.group[magnitude_s == 0]).numel())
        self._drop(ZERO_VARIANCE, silent)
        self.trained += batch.num_prompts - silent
        self._open -= batch.num_prompts - silent

    def metrics(self, pending: Iterable[Prompt]) -> dict[str, float]:
        """Return columns of the step that ends; `pending` are the prompts of the draws in progress.

        lost_prompts: of the stage so far. dropped_groups: of this step, and dropped_<reason> those that there are.
        """
        self.astray += self._open
        queued = _ids(pending)
        lost = self.astray + (Counter(self.waiting) - queued).total()
        columns = {LOST: float(lost), DROPPED: float(self._step.total())}
        columns |= {f"dropped_{reason}": float(count) for reason, count in sorted(self._step.items())}
        return columns | ({"pending_prompts": float(queued.total())} if queued else {})

    def to_json(self) -> dict[str, Any]:
        """Return what a checkpoint keeps between steps."""
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> Accounts:
        """Restore what `to_json` returned; an empty mapping of an earlier checkpoint begins anew."""
        return cls(**saved)

    def _compare(self, reason: str, before: Counter[str], after: Counter[str]) -> None:
        more = (after - before).total()
        self.added += more
        self._open += more
        self._drop(reason, (before - after).total())

    def _drop(self, reason: str, count: int) -> None:
        if count:
            self._step[reason] += count
            self._open -= count
            self.dropped[reason] = self.dropped.get(reason, 0) + count


def _ids(prompts: Iterable[Prompt]) -> Counter[str]:
    return Counter(prompt.of or prompt.item.id for prompt in prompts)
