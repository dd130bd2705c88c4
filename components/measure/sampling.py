"""Sample responses of a policy to items and verify them: the measurement that stages share.

curate filters by it, evaluate and select report it, replay draws rehearsal examples from it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from components.measure.fitting import cut_script
from components.measure.outcomes import ItemOutcomes
from components.modeling.generation.sampling_config import SamplingConfig
from components.tasks.item import Item
from components.tasks.seeds import derive_seed
from components.tasks.verify import Verdict, verify_all
from components.tasks.wording import item_wording

if TYPE_CHECKING:
    import torch

    from components.modeling.generation.conversation import Asked, Turn
    from components.modeling.generation.sampler import Sampler
    from components.modeling.generation.samples import Samples
    from components.modeling.models.policy import Policy

Progress = Callable[[int, int], None]


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
    for found in sample_blocks(sampler, ((block, sampling) for block in blocks(items, sampling)), seed=seed):
        outcomes += found
        done += len(found) * sampling.num_samples
        if progress is not None:
            progress(done, total)
    return outcomes


def blocks(items: Sequence[Item], sampling: SamplingConfig) -> Iterator[list[Item]]:
    """Cut items into blocks that are sampled at once; cuts depend only on `sampling`.

    A block's responses fill `max_batch_tokens` at full length, as generation itself is bounded.
    """
    size = max(1, sampling.max_batch_tokens // (sampling.num_samples * sampling.max_new_tokens))
    return (list(items[start : start + size]) for start in range(0, len(items), size))


def sample_blocks(
    sampler: Sampler, wanted: Iterable[tuple[Sequence[Item], SamplingConfig]], *, seed: int, cut: bool = False
) -> Iterator[list[ItemOutcomes]]:
    """Yield the outcomes of each block, in order. An engine draws the next blocks while one is verified.

    So many blocks are begun that as the first one ends the others fill the engine (`Sampler.rows_ahead`). A block's
    random numbers depend on `seed` and its items' ids only: not on the other blocks, nor on when it is begun. With
    `cut` a prompt that does not fit the model loses its first tokens, where it is an error without.
    """
    begun: deque[_Block] = deque()
    for items, sampling in wanted:
        begun.append(_Block(sampler, items, sampling, seed, cut=cut))
        while begun and sum(block.rows for block in begun) - begun[0].rows >= sampler.rows_ahead:
            yield begun.popleft().outcomes()
    while begun:
        yield begun.popleft().outcomes()


class _Block:
    """A block whose first turn is being drawn."""

    def __init__(
        self, sampler: Sampler, items: Sequence[Item], sampling: SamplingConfig, seed: int, *, cut: bool
    ) -> None:
        from components.modeling.generation.conversation import conversing
        from components.modeling.text.turns import scripts

        policy = sampler.policy
        self._sampler, self._items, self._size = sampler, items, sampling.num_samples
        self.rows = len(items) * self._size
        self._tasks = scripts(
            policy.tokenizer, [item.task for item in items], policy.ends, names=[item.id for item in items]
        )
        if cut:
            room = sampling.max_new_tokens, policy.max_positions
            self._tasks = [cut_script(task, *room) for task in self._tasks]
        self._generator = _generator(seed, items)
        self._steps = conversing(self._tasks, sampling, policy.max_positions)
        self._begin(next(self._steps))

    def outcomes(self) -> list[ItemOutcomes]:
        """Wait for the responses, and verify them."""
        from components.modeling.generation.conversation import whole_rows

        policy, size = self._sampler.policy, self._size
        drawn = self._turns()
        texts: list[list[str]] = [[] for _ in range(self.rows)]
        for turn in drawn:
            for row, text in zip(turn.rows, _decode(policy, turn, self._items, size), strict=True):
                texts[row].append(text)
        responses = [written[-1] for written in texts]
        columns = (responses, _verify_distinct(self._items, responses, size), *whole_rows(drawn))
        return [
            ItemOutcomes(
                item,
                *(tuple(column[i * size : (i + 1) * size]) for column in columns),
                turns=tuple(tuple(written[:-1]) for written in texts[i * size : (i + 1) * size]) if task.gaps else (),
            )
            for i, (item, task) in enumerate(zip(self._items, self._tasks, strict=True))
        ]

    def _begin(self, asked: Asked) -> None:
        self._asked = asked
        self._drawing = self._sampler.begin(asked.contexts, asked.config, generator=self._generator, steady=True)

    def _turns(self) -> list[Turn]:
        while True:
            samples = _with_entropies(self._sampler, self._asked, self._drawing.samples())
            try:
                self._begin(self._steps.send(samples))
            except StopIteration as end:
                turns: list[Turn] = end.value
                return turns


def _with_entropies(sampler: Sampler, asked: Asked, samples: Samples) -> Samples:
    """Return what an engine drew with entropies; a policy's own samples have them.

    Drawn from the policy's own distribution, a token's -log p is its entropy's unbiased estimate, and costs nothing.
    At another temperature, or truncated, only a pass of the policy tells.
    """
    if sampler.is_policy:
        return samples
    if asked.config.plain:
        return replace(samples, entropies=-samples.logprobs)
    return sampler.scored(asked.contexts, samples, temperature=asked.config.temperature)


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
