"""The streamed way through curate: sift in parts, pick, and write; a checkpoint after each part and after picking."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from components.contract.artifacts import canonical_json, hash_parts
from components.contract.context import StageContext
from components.curate.params import CurateParams
from components.curate.render import Writer
from components.curate.stream.parts import ASKED, Facts, Part, parts_in
from components.curate.stream.pick import KEPT, REASONS, Verdicts, pick
from components.curate.stream.shard import joined
from components.curate.stream.shuffle import shuffled
from components.curate.stream.sources import SiftedSources
from components.curation.candidate import Candidate
from components.curation.collect import CollectedRows, SourceTally
from components.curation.output import unique_id
from components.curation.similarity.key_set import KeySet
from components.tasks.item import Item

VERDICTS = "verdicts.npy"


class Stream:
    """A corpus on its way through the stage, in parts: its own, which lie with the dataset, or those of its shards."""

    def __init__(self, context: StageContext[CurateParams]) -> None:
        self._context, self._params = context, context.params
        self._parts: list[tuple[Part, Facts]] = []
        self.collection = CollectedRows()

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the rows of the dataset, each with a unique id; the collection has all counts by then."""
        origins = self._join() if self._params.shards else self._sift()
        shares = zip(self._params.sources, origins, strict=True)
        self.collection.tallies += [SourceTally(share.domain, origin) for share, origin in shares]
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

    def _sift(self) -> list[dict[str, Any]]:
        """Make the parts that are not there yet, and return the origins of the sources."""
        folder = self._context.output("dataset")
        sources = SiftedSources(self._context, folder)
        sources.sift()
        self._parts = parts_in(folder)
        return sources.origins

    def _join(self) -> list[dict[str, Any]]:
        """Take the parts of all shards, and return the origins of the sources."""
        found = joined([shard.path for shard in self._context.inputs("shards")], self._params)
        self._parts = found.parts
        return found.origins

    def _kept(self, verdicts: list[Verdicts]) -> Iterator[bytes]:
        """Yield the lines of kept rows; a part of this stage goes when it was read, and stays in the checkpoint."""
        writer, position = Writer(self._params, self._context.seed), 0
        for (part, facts), own in zip(self._parts, verdicts, strict=True):
            for place, (line, verdict) in enumerate(zip(part.lines(), own.tolist(), strict=True), start=position):
                if verdict == KEPT:
                    yield _answered(line, writer, facts.source, place) if line.startswith(ASKED) else line
            position += len(own)
            if not self._params.shards:
                part.remove()

    def _picked(self) -> list[Verdicts]:
        """Return the verdicts on the rows of each part, from the checkpoint if they are there."""
        resumed = self._context.resume()
        if resumed is not None and (resumed / VERDICTS).is_file():
            ends = np.cumsum([facts.passed for _, facts in self._parts], dtype=np.int64)
            return np.split(np.load(resumed / VERDICTS), ends)[: len(self._parts)]
        verdicts = pick((part for part, _ in self._parts), self._params.dedup)
        whole = np.concatenate([np.zeros(0, np.uint8), *verdicts])
        self._context.checkpoint(len(self._parts) + 1, lambda folder: np.save(folder / VERDICTS, whole))
        return verdicts

    def _count(self, verdicts: list[Verdicts]) -> None:
        """Add up what the parts say and what was picked."""
        found = self.collection
        for (_, facts), own in zip(self._parts, verdicts, strict=True):
            tally = found.tallies[facts.source]
            tally.drawn += facts.drawn
            tally.kept += int((own == KEPT).sum())
            tally.drops += facts.drops
            for code, reason in REASONS.items():
                tally.drops[reason] += int((own == code).sum())
            tally.drops += Counter()  # drops reasons with a count of zero
            found.domains += facts.domains
            found.prompt_chars += facts.prompt_chars
            found.answer_chars += facts.answer_chars


def _answered(line: bytes, writer: Writer, source: int, position: int) -> bytes:
    """Return the row of an item that a demonstrator answers as the row of its position."""
    item = Item.model_validate(json.loads(line.removeprefix(ASKED)))
    draft = Candidate(item.id, item.domain, source, item=item)
    return canonical_json({**writer.text(draft, position), "id": item.id}) + b"\n"


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
