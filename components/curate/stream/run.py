"""The streamed way through curate: sift in parts, pick, and write; a checkpoint after each part and after picking."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from itertools import compress, islice
from typing import Any

import numpy as np

from components.contract.artifacts import hash_parts
from components.contract.context import StageContext
from components.curate.filters import text_filters
from components.curate.params import CurateParams
from components.curate.stream.parts import Part
from components.curate.stream.pick import KEPT, REASONS, Verdicts, pick
from components.curate.stream.shuffle import shuffled
from components.curate.stream.sift import Sifter
from components.curation.chain import row_checks
from components.curation.collect import UNLIMITED, CollectedRows, SourceTally
from components.curation.operators.dedup import DedupConfig
from components.curation.output import unique_id
from components.curation.similarity.key_set import KeySet
from components.tasks.source import SourceRequest, SourceRows

PARTS, VERDICTS = "part-*.json", "verdicts.npy"


class Stream:
    """A corpus on its way through the stage, in parts that lie in the folder of the dataset until it is written."""

    def __init__(self, context: StageContext[CurateParams]) -> None:
        self._context, self._params = context, context.params
        self._folder = context.output("dataset")
        self._parts = [Part(path.with_suffix("")) for path in sorted(self._folder.glob(PARTS))]
        for part in self._parts:
            part.freeze()
        self.collection = CollectedRows()

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the rows of the dataset, each with a unique id; the collection has all counts by then."""
        self._sift()
        verdicts = self._picked()
        self._count(verdicts)
        lines = self._kept(verdicts)
        if self._params.shuffle and self._params.streamed:
            buckets = self._params.streamed.buckets
            lines = shuffled(lines, self._context.scratch, buckets=buckets, seed=self._context.seed)
        ids = _Ids()
        for line in lines:
            row = json.loads(line)
            yield {**row, "id": unique_id(row["id"], ids)}

    def _kept(self, verdicts: list[Verdicts]) -> Iterator[bytes]:
        """Yield the lines of kept rows; a part goes when it was read, and stays in the checkpoint."""
        for part, own in zip(self._parts, verdicts, strict=True):
            yield from compress(part.lines(), (own == KEPT).tolist())
            part.remove()

    def _sift(self) -> None:
        """Make the parts that are not there yet."""
        context, params = self._context, self._params
        alone = params.model_copy(update={"dedup": DedupConfig(exact=False)})
        against = (found.path for found in context.inputs("against"))
        checks = row_checks(alone, against, context.seed, text_filters(params))
        sifter = Sifter(params, checks, context.seed, lambda done: context.progress(done, done))
        done = [0] * len(params.sources)
        for part in self._parts:
            facts = part.facts()
            sifter.resume(facts)
            done[facts.source] += facts.drawn
        for source in range(len(params.sources)):
            opened = self._open(source)
            self.collection.tallies.append(SourceTally(params.sources[source].domain, dict(opened.origin)))
            rows = iter(opened.rows)
            for _ in islice(rows, done[source]):
                pass
            while sifter.part(part := Part(self._folder / f"part-{len(self._parts):05d}"), rows, source):
                self._parts.append(part)
                context.checkpoint(len(self._parts), lambda folder: None)  # its files are in the output

    def _open(self, source: int) -> SourceRows:
        scratch = self._context.scratch / f"source-{source}"
        scratch.mkdir()
        datasets = tuple(found.path for found in self._context.inputs("dataset"))
        request = SourceRequest(seed=self._context.seed, limit=UNLIMITED, scratch=scratch, datasets=datasets)
        opened: SourceRows = self._params.sources[source].source.resolve()(request)
        return opened

    def _picked(self) -> list[Verdicts]:
        """Return the verdicts on the rows of each part, from the checkpoint if they are there."""
        resumed = self._context.resume()
        if resumed is not None and (resumed / VERDICTS).is_file():
            ends = np.cumsum([part.facts().passed for part in self._parts], dtype=np.int64)
            return np.split(np.load(resumed / VERDICTS), ends)[: len(self._parts)]
        verdicts = pick(self._parts, self._params.dedup)
        whole = np.concatenate([np.zeros(0, np.uint8), *verdicts])
        self._context.checkpoint(len(self._parts) + 1, lambda folder: np.save(folder / VERDICTS, whole))
        return verdicts

    def _count(self, verdicts: list[Verdicts]) -> None:
        """Add up what the parts say and what was picked."""
        found = self.collection
        for part, own in zip(self._parts, verdicts, strict=True):
            facts, tally = part.facts(), found.tallies[part.facts().source]
            tally.drawn += facts.drawn
            tally.kept += int((own == KEPT).sum())
            tally.drops += facts.drops
            for code, reason in REASONS.items():
                tally.drops[reason] += int((own == code).sum())
            tally.drops += Counter()  # drops reasons with a count of zero
            found.domains += facts.domains
            found.prompt_chars += facts.prompt_chars
            found.answer_chars += facts.answer_chars


class _Ids:
    """The ids that are taken, by 8 bytes of their digests: a chance match makes an id longer, and nothing else."""

    def __init__(self) -> None:
        self._keys = KeySet()

    def __contains__(self, name: str) -> bool:
        return _key(name) in self._keys

    def add(self, name: str) -> None:
        self._keys.add(_key(name))


def _key(name: str) -> int:
    return int(hash_parts(name)[:16], 16)
