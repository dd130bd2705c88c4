"""Which examples each optimiser step sees, and how they are cut into forward passes.

Both are pure functions of the seed and the step: a resumed run needs only its step to find its data position.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence

from components.contract.errors import InputError, UnknownName


class BatchSampler:
    """Draws batches of example indices: every example once per epoch, each epoch in its own order.

    With a mixture, the domains are interleaved so that after any number of draws each has had its share to
    within one example per domain; each domain has its own epochs.
    """

    def __init__(
        self,
        domains: Sequence[str],
        batch_size: int,
        *,
        seed: int,
        mixture: Mapping[str, float] | None = None,
    ) -> None:
        """`domains` gives the domain of every example. Raises UnknownName for a domain without examples."""
        if not domains:
            raise InputError("there is no example to train on")
        self.batch_size, self._seed = batch_size, seed
        members: dict[str, list[int]] = {}
        for index, domain in enumerate(domains):
            members.setdefault(domain if mixture else "", []).append(index)
        for domain in mixture or {}:
            if domain not in members:
                raise UnknownName("domain of the mixture", domain, members)
        shares = dict(mixture) if mixture else {"": 1.0}
        whole = sum(shares.values())
        self._names = sorted(shares)
        self._shares = [shares[name] / whole for name in self._names]
        self._members = [members[name] for name in self._names]
        self._orders: list[tuple[int, list[int]]] = [(-1, [])] * len(self._names)
        self._position, self._drawn = 0, [0] * len(self._names)

    @property
    def num_examples(self) -> int:
        """Return how many examples can be drawn."""
        return sum(map(len, self._members))

    def batch(self, step: int) -> list[int]:
        """Return the example indices of step `step`, counted from 0."""
        if step * self.batch_size < self._position:
            self._position, self._drawn = 0, [0] * len(self._names)
        while self._position < step * self.batch_size:
            self._draw()
        return [self._example(*self._draw()) for _ in range(self.batch_size)]

    def _draw(self) -> tuple[int, int]:
        """Return the next group and how many of it were drawn before: the group furthest behind its share."""
        self._position += 1
        behind = [share * self._position - n for share, n in zip(self._shares, self._drawn, strict=True)]
        group = behind.index(max(behind))
        self._drawn[group] += 1
        return group, self._drawn[group] - 1

    def _example(self, group: int, count: int) -> int:
        epoch, position = divmod(count, len(self._members[group]))
        if self._orders[group][0] != epoch:
            order = list(self._members[group])
            random.Random(f"{self._seed}/{self._names[group]}/{epoch}").shuffle(order)
            self._orders[group] = (epoch, order)
        return self._orders[group][1][position]


def micro_batches(lengths: Sequence[int], max_tokens: int) -> Iterator[list[int]]:
    """Cut sequences into forward passes of at most `max_tokens`, longest first; yield their indices.

    Sequences of similar length end up together, so that attention, the only padded part of a pack, wastes
    little. A sequence longer than `max_tokens` gets its own pass.
    """
    order = sorted(range(len(lengths)), key=lambda index: (-lengths[index], index))
    current: list[int] = []
    total = 0
    for index in order:
        if current and total + lengths[index] > max_tokens:
            yield current
            current, total = [], 0
        current.append(index)
        total += lengths[index]
    if current:
        yield current
