"""The sources of a stage, sifted into parts: all of them, or the share of one shard."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from components.contract.context import StageContext
from components.curate.filters import text_filters
from components.curate.params import CurateParams
from components.curate.stream.parts import Facts, Part, parts_in
from components.curate.stream.processes import SiftProcesses
from components.curate.stream.sift import Sifter
from components.curate.stream_config import ShardConfig
from components.curation.chain import row_checks
from components.curation.collect import UNLIMITED
from components.curation.operators.dedup import DedupConfig
from components.tasks.source import BadRow, SourceRequest, SourceRow, SourceRows

ALL = ShardConfig(index=0, of=1)


class SiftedSources:
    """Makes the parts of a share in a folder that is a stage's output, with a checkpoint after each."""

    def __init__(self, context: StageContext[CurateParams], folder: Path, share: ShardConfig = ALL) -> None:
        self._context, self._params, self._folder, self._share = context, context.params, folder, share
        alone = context.params.model_copy(update={"dedup": DedupConfig(exact=False)})
        against = (found.path for found in context.inputs("against"))
        checks = row_checks(alone, against, context.seed, text_filters(context.params))
        self._sifter = Sifter(context.params, checks, context.seed, lambda done: context.progress(done, done))
        self._done: dict[tuple[int, int], Facts] = {}
        for part, facts in parts_in(folder):  # of an earlier attempt; a restored checkpoint leaves them writable
            part.freeze()
            self._done[facts.source, facts.number] = facts
        self._drawn = self._sifter.drawn = sum(facts.drawn for facts in self._done.values())
        self.origins: list[dict[str, Any]] = []
        """What each source says of itself."""
        self.rows: list[int] = []
        """How many rows each source has, of all shares."""

    def sift(self) -> None:
        """Make the parts that are not there yet, in as many processes as the stage has cores."""
        aside = self._context.scratch / "parts"
        aside.mkdir()
        cores = self._context.job.resources.cpus
        with SiftProcesses(self._sifter, aside, cores, self._progress) as self._processes:
            for source in range(len(self._params.sources)):
                opened = self._open(source)
                self.origins.append(dict(opened.origin))
                self.rows.append(self._sift(source, iter(opened.rows)))
            for part, facts in self._processes.rest():
                part.moved(self._folder)
                self._finish(facts)

    @property
    def counts(self) -> list[Facts]:
        """Return the counts of all parts."""
        return list(self._done.values())

    def _sift(self, source: int, rows: Iterator[SourceRow | BadRow]) -> int:
        """Make the parts of one source, and return how many rows it has."""
        size, number, total = self._sifter.rows_per_part, 0, 0
        while (read := self._next(source, number, rows)) == size:
            number, total = number + 1, total + size
        return total + read

    def _next(self, source: int, number: int, rows: Iterator[SourceRow | BadRow]) -> int:
        """Make the next part, or read past its rows if it is there or another share's; return how many rows it has."""
        if (source, number) in self._done or not self._share.takes(source, number):
            return sum(1 for _ in islice(rows, self._sifter.rows_per_part))
        if self._context.job.resources.cpus == 1:
            facts = self._sifter.part(Part.in_folder(self._folder, source, number), rows, source, number)
            if facts.drawn:
                self._finish(facts)
            return facts.drawn
        count = self._processes.deal(islice(rows, self._sifter.rows_per_part), source, number)
        for part, facts in self._processes.check(source, number) if count else ():
            part.moved(self._folder)
            self._finish(facts)
        return count

    def _finish(self, facts: Facts) -> None:
        """Keep a new part, whose files are in the output."""
        self._done[facts.source, facts.number] = facts
        self._context.checkpoint(len(self._done), lambda folder: None)

    def _progress(self, rows: int) -> None:
        self._drawn += rows
        self._context.progress(self._drawn, self._drawn)

    def _open(self, source: int) -> SourceRows:
        scratch = self._context.scratch / f"source-{source}"
        scratch.mkdir()
        datasets = tuple(found.path for found in self._context.inputs("dataset"))
        request = SourceRequest(seed=self._context.seed, limit=UNLIMITED, scratch=scratch, datasets=datasets)
        opened: SourceRows = self._params.sources[source].source.resolve()(request)
        return opened
