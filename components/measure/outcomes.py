"""Outcomes: a policy's responses to an item with their verdicts, as stages measure, report and keep them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from components.tasks.answers import extract_answer
from components.tasks.item import Item
from components.tasks.verify import Outcome, Verdict


@dataclass(frozen=True)
class ItemOutcomes:
    """All responses to one item with their verdicts; the tuples have one entry per response."""

    item: Item
    responses: tuple[str, ...]
    verdicts: tuple[Verdict, ...]
    lengths: tuple[int, ...]
    """Tokens of each response, the end mark counted."""
    entropies: tuple[float, ...]
    """Mean entropy over the tokens of each response, nats, of the policy's own distribution.

    Where an engine drew from that distribution itself: the mean of -log p of its tokens, whose expectation it is."""
    logprobs: tuple[float, ...]
    """Log-probability of each whole response under the distribution it was drawn from."""
    finished: tuple[bool, ...]
    """Whether a response ended by itself; False when it was cut at the token limit (in a conversation: in any turn)."""
    turns: tuple[tuple[str, ...], ...] = ()
    """For an item with open turns, the policy's turns before the response; lengths, entropies and
    log-probabilities then cover all its turns. Empty for a single turn."""

    @property
    def num_samples(self) -> int:
        """Return how many responses were drawn."""
        return len(self.responses)

    @cached_property
    def num_right(self) -> int:
        """Return how many responses were verified right."""
        return self._count(Outcome.RIGHT)

    @cached_property
    def num_wrong(self) -> int:
        """Return how many responses were verified wrong."""
        return self._count(Outcome.WRONG)

    @cached_property
    def num_failed(self) -> int:
        """Return how many verifications failed: these responses are in no denominator."""
        return self._count(Outcome.FAILED)

    @cached_property
    def raised(self) -> tuple[str, ...]:
        """Return why responses count as wrong on which a user's verifier raised."""
        return tuple(verdict.detail for verdict in self.verdicts if verdict.raised)

    @property
    def num_verified(self) -> int:
        """Return how many responses were judged: right and wrong ones."""
        return self.num_right + self.num_wrong

    @property
    def pass_rate(self) -> float | None:
        """Return right responses as a share of the verified ones; None when none was verified."""
        return self.num_right / self.num_verified if self.num_verified else None

    @cached_property
    def answers(self) -> tuple[str | None, ...]:
        """Return the answer that each response gives; None where it gives none."""
        return tuple(extract_answer(response) or None for response in self.responses)

    def written(self, index: int) -> tuple[str, ...]:
        """Return all turns of a response, the response last."""
        return (*(self.turns[index] if self.turns else ()), self.responses[index])

    def verified(self) -> Iterator[int]:
        """Yield the indices of responses that were judged."""
        return (index for index, verdict in enumerate(self.verdicts) if not verdict.failed)

    @cached_property
    def verified_answers(self) -> tuple[list[str | None], list[bool]]:
        """Return the answers of the judged responses, and whether each is right."""
        rows = list(self.verified())
        return [self.answers[row] for row in rows], [self.verdicts[row].right for row in rows]

    def _count(self, outcome: Outcome) -> int:
        return sum(verdict.outcome is outcome for verdict in self.verdicts)


def outcomes_to_row(outcomes: ItemOutcomes) -> dict[str, Any]:
    """Return plain JSON that `outcomes_from_row` inverts exactly; the item is stored by id only."""
    turns = {"turns": [list(written) for written in outcomes.turns]} if outcomes.turns else {}
    return {
        "id": outcomes.item.id,
        **turns,
        "responses": list(outcomes.responses),
        "verdicts": [_verdict_to_row(verdict) for verdict in outcomes.verdicts],
        "lengths": list(outcomes.lengths),
        "entropies": list(outcomes.entropies),
        "logprobs": list(outcomes.logprobs),
        "finished": list(outcomes.finished),
    }


def outcomes_from_row(row: dict[str, Any], item: Item) -> ItemOutcomes:
    """Undo `outcomes_to_row`."""
    return ItemOutcomes(
        item=item,
        responses=tuple(row["responses"]),
        verdicts=tuple(Verdict(Outcome(outcome), *rest) for outcome, *rest in row["verdicts"]),
        lengths=tuple(row["lengths"]),
        entropies=tuple(row["entropies"]),
        logprobs=tuple(row["logprobs"]),
        finished=tuple(row["finished"]),
        turns=tuple(tuple(written) for written in row.get("turns", ())),
    )


def _verdict_to_row(verdict: Verdict) -> list[Any]:
    """Return outcome and detail, and the grade where the verifier gave one."""
    row = [verdict.outcome.value, verdict.detail]
    if verdict.raised:
        return [*row, verdict.graded, True]
    return row if verdict.graded is None else [*row, verdict.graded]


def by_domain(outcomes: Iterable[ItemOutcomes]) -> dict[str, list[ItemOutcomes]]:
    """Group outcomes by domain: domains sorted, items in their order."""
    groups: dict[str, list[ItemOutcomes]] = {}
    for outcome in outcomes:
        groups.setdefault(outcome.item.domain, []).append(outcome)
    return dict(sorted(groups.items()))
