"""Chunks of new rows: made once, kept in partial checkpoints, and given to the chain as they come."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from components.contract.context import StageContext
from components.contract.errors import OperatorFailed
from components.synthesize.context import GeneratorContext
from components.synthesize.made import Dropped, Made, Row, from_log, source_rows, to_log
from components.synthesize.params import SynthesizeParams
from components.synthesize.writers import Writers
from components.tasks.item import Item
from components.tasks.seeds import derive_seed
from components.tasks.source import BadRow, SourceRow

LOG = "chunks"
SPARE = 20
"""A generator without items that gives less than one row in so many attempts counts as exhausted."""
Context = Callable[[int, int], GeneratorContext]
"""Seed of a chunk and rows to attempt -> the generator's context."""


class Maker:
    """Makes rows chunk by chunk; what an earlier attempt made is taken from its checkpoint."""

    def __init__(
        self, context: StageContext[SynthesizeParams], items: Sequence[Item], writers: Writers, of_chunk: Context
    ) -> None:
        self._context, self._items, self._writers, self._of_chunk = context, items, writers, of_chunk
        self._earlier: list[list[Row]] = context.appended(LOG)
        self._generator = context.params.generator.resolve()
        self.num_chunks = len(self._earlier)
        """Chunks made so far, those of earlier attempts included."""
        self.step: Callable[[], int] = lambda: self.num_chunks
        """Gives the number of the next checkpoint."""

    @property
    def total(self) -> int:
        """Return how many chunks there are at most."""
        params = self._context.params
        if not params.making.seeded:
            return math.ceil((params.size or 0) * SPARE / params.chunk)
        return params.rounds * math.ceil(len(self._items) / params.chunk)

    def rows(self) -> Iterator[SourceRow | BadRow]:
        """Yield all rows and dropped texts; a chunk is made when its first row is asked for."""
        kind = self._context.params.making.kind
        for number, (turn, items) in enumerate(self._chunks()):
            yield from source_rows(self._made(number, turn, items), f"chunk {number + 1}", kind=kind)
            self._context.progress(number + 1, self.total)

    def _chunks(self) -> Iterator[tuple[int, Sequence[Item]]]:
        """Yield the round and the items of each chunk."""
        params = self._context.params
        if not params.making.seeded:
            yield from ((0, ()) for _ in range(self.total))
            return
        for turn in range(params.rounds):
            yield from ((turn, self._items[at : at + params.chunk]) for at in range(0, len(self._items), params.chunk))

    def _made(self, number: int, turn: int, items: Sequence[Item]) -> list[Made | Dropped]:
        if number < len(self._earlier):
            return from_log(self._earlier[number])
        params = self._context.params
        seed = derive_seed(self._context.seed, params.generator.name, turn, number)
        made = list(self._generator(items, self._writers, self._of_chunk(seed, params.chunk)))
        if odd := [row for row in made if not isinstance(row, Made | Dropped)]:
            raise OperatorFailed(f"generator {self._generator.shown!r} gives {odd[0]!r:.60}, expected Made or Dropped")
        self._context.append(LOG, [to_log(made)])
        self.num_chunks += 1
        self._context.checkpoint(self.step(), lambda folder: None)  # the log is all there is
        return made
