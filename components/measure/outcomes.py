"""Sample responses of a policy to items and verify them: the measurement that stages share.

curate filters by it, evaluate and select report it, replay draws rehearsal examples from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from components.modeling.generation.sampling_config import SamplingConfig
from components.tasks.answers import extract_answer
from components.tasks.item import Item
from components.tasks.seeds import derive_seed
from components.tasks.verify import Outcome, Verdict, verify_all
from components.tasks.wording import item_wording

if TYPE_CHECKING:
    import torch

    from components.modeling.generation.conversation import Turn
    from components.modeling.generation.sampler import Sampler
    from components.modeling.models.policy import Policy

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class ItemOutcomes:
    """All responses to one item with their verdicts; the tuples have one entry per response."""

    item: Item
    responses: tuple[str, ...]
    verdicts: tuple[Verdict, ...]
    lengths: tuple[int, ...]
    """Tokens of each response, the end mark counted."""
    entropies: tuple[float, ...]
    """Mean entropy over the tokens of each response, nats, of the policy's own distribution."""
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

    def _count(self, outcome: Outcome) -> int:
        return sum(verdict.outcome is outcome for verdict in self.verdicts)


def sample_and_verify(
    sampler: Sampler,
    items: Sequence[Item],
    sampling: SamplingConfig,
    *,
    seed: int,
    progress: Progress | None = None,
) -> list[ItemOutcomes]:
    """Draw `sampling.num_samples` responses to every item and verify them; one ItemOutcomes per item, in order.

    Up to the device's arithmetic, the same sampler, weights, items, sampling and seed give the same responses. Two
    policies that see the same items are given the same random numbers, which makes their paired difference less noisy.
    `progress` is called with (responses done, all responses).
    """
    total, done = len(items) * sampling.num_samples, 0
    outcomes: list[ItemOutcomes] = []
    for block in blocks(items, sampling):
        outcomes += sample_block(sampler, block, sampling, seed=seed)
        done += len(block) * sampling.num_samples
        if progress is not None:
            progress(done, total)
    return outcomes


def blocks(items: Sequence[Item], sampling: SamplingConfig) -> Iterator[list[Item]]:
    """Cut items into blocks that are sampled at once; cuts depend only on `sampling`.

    A block's responses fill `max_batch_tokens` at full length, as generation itself is bounded.
    """
    size = max(1, sampling.max_batch_tokens // (sampling.num_samples * sampling.max_new_tokens))
    return (list(items[start : start + size]) for start in range(0, len(items), size))


def sample_block(sampler: Sampler, items: Sequence[Item], sampling: SamplingConfig, *, seed: int) -> list[ItemOutcomes]:
    """Sample and verify one block; its random numbers depend on `seed` and the items' ids only."""
    from components.modeling.generation.conversation import converse, whole_rows
    from components.modeling.text.turns import scripts

    policy, size = sampler.policy, sampling.num_samples
    tasks = scripts(policy.tokenizer, [item.task for item in items], policy.ends, names=[item.id for item in items])
    drawn = converse(sampler, tasks, sampling, generator=_generator(seed, items))
    texts: list[list[str]] = [[] for _ in range(len(items) * size)]
    for turn in drawn:
        for row, text in zip(turn.rows, _decode(policy, turn, items, size), strict=True):
            texts[row].append(text)
    responses = [written[-1] for written in texts]
    verdicts = _verify_distinct(items, responses, size)
    columns = (responses, verdicts, *whole_rows(drawn))
    return [
        ItemOutcomes(
            item,
            *(tuple(column[i * size : (i + 1) * size]) for column in columns),
            turns=tuple(tuple(written[:-1]) for written in texts[i * size : (i + 1) * size]) if task.gaps else (),
        )
        for i, (item, task) in enumerate(zip(items, tasks, strict=True))
    ]


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


def _decode(policy: Policy, turn: Turn, items: Sequence[Item], size: int) -> list[str]:
    """Return the text of each response of a turn; `size` conversations are of one item."""
    from components.modeling.text.prompting import decode_responses

    of_item = [item_wording(item) for item in items]
    wordings = [of_item[row // size] for row in turn.rows]
    return decode_responses(policy.tokenizer, turn.samples.responses(), policy.ends, wordings=wordings)


def _verify_distinct(items: Sequence[Item], responses: Sequence[str], num_samples: int) -> list[Verdict]:
    """Verify each distinct response of an item once: a verifier may be slow, and a sharp policy repeats itself."""
    keys = [(row // num_samples, response) for row, response in enumerate(responses)]
    distinct = list(dict.fromkeys(keys))
    judged = verify_all((items[index], response) for index, response in distinct)
    verdicts = dict(zip(distinct, judged, strict=True))
    return [verdicts[key] for key in keys]


def _generator(seed: int, items: Sequence[Item]) -> torch.Generator:
    import torch

    return torch.Generator().manual_seed(derive_seed(seed, "sample_and_verify", *(item.id for item in items)))
