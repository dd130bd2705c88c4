"""The curate stage: draw, check, grade and write rows, and report the counts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from components.contract.context import StageContext
from components.contract.errors import InputError
from components.curate.contradictions import settle
from components.curate.filters import text_filters
from components.curate.lengths import prompt_lengths
from components.curate.origins import write_origins
from components.curate.params import CurateParams, SourceShare
from components.curate.render import render_rows
from components.curate.selection.context import SelectionContext
from components.curate.selection.select import apply_selectors
from components.curate.stream.run import Stream
from components.curate.stream.shard import sift_shard
from components.curation.candidate import Candidate
from components.curation.chain import opened_difficulty
from components.curation.collect import CollectedRows, RowCollector
from components.curation.output import write_dataset
from components.curation.token_count import TokenCount
from components.tasks.seeds import derive_rng
from components.tasks.source import SourceRequest

PROGRESS_EVERY = 64
LATER_PORTS = ("ledger", "targets", "mixture")
"""In the card only where they are connected: cards from before they existed keep their bytes."""


def run(context: StageContext[CurateParams]) -> None:
    """Make the dataset of the parameters; equal parameters, inputs and seed give equal bytes."""
    params, selection = context.params, SelectionContext(context)
    if params.shard:
        sift_shard(context, params.shard)
        return
    if params.streamed:
        stream = Stream(context)
        _write(context, stream.collection, [], stream.rows())
        return
    counts = allot(params.sources, params.size, _weights(params, selection))
    collection = _collect(context, counts)
    apply_selectors([selector.resolve() for selector in params.selectors], collection, selection)
    drafts = list(collection.kept)
    if params.shuffle:
        derive_rng(context.seed, "shuffle").shuffle(drafts)
    _write(context, collection, drafts, render_rows(drafts, params, context.seed))


def _weights(params: CurateParams, selection: SelectionContext) -> Sequence[float]:
    """Return the weight of each source by the mixture; raise InputError, or OperatorFailed for unusable weights."""
    mixture = params.mixture.resolve()
    weights: Sequence[float] = mixture(params.sources, selection)
    if len(weights) != len(params.sources) or not all(0 <= weight < math.inf for weight in weights):
        raise mixture.failed(f"gave {list(weights)} for {len(params.sources)} sources, not a weight from 0 for each")
    return weights


def allot(
    sources: tuple[SourceShare, ...], size: int | None, weights: Sequence[float] | None = None
) -> list[int | None]:
    """Return how many rows each source gives: its count, or its share of what `size` leaves, by largest remainder.

    `weights` are in the place of the sources' own. None means all rows of the source. Raises InputError if the counts
    exceed `size`, or if all weights are 0.
    """
    if size is None:
        return [share.count for share in sources]
    left = size - sum(share.count for share in sources if share.count is not None)
    if left < 0:
        raise InputError(f"size: the sources' counts add up to {size - left}, more than the size {size}")
    weights = [share.weight for share in sources] if weights is None else weights
    total = sum(weight for share, weight in zip(sources, weights, strict=True) if share.count is None)
    if not total and any(share.count is None for share in sources):
        raise InputError("mixture: the weights of all sources are 0")
    exact = [
        0.0 if share.count is not None else left * weight / total
        for share, weight in zip(sources, weights, strict=True)
    ]
    floors = [int(value) for value in exact]
    by_remainder = sorted(range(len(sources)), key=lambda i: (floors[i] - exact[i], i))
    open_sources = [i for i in by_remainder if sources[i].count is None]
    for index in open_sources[: left - sum(floors)]:
        floors[index] += 1
    return [share.count if share.count is not None else floors[i] for i, share in enumerate(sources)]


def _collect(context: StageContext[CurateParams], counts: list[int | None]) -> CollectedRows:
    params = context.params
    total = sum(count or 0 for count in counts)

    def progress(done: int) -> None:
        if done % PROGRESS_EVERY == 0:
            context.progress(done, max(total, done))

    lengths = prompt_lengths(context)
    with opened_difficulty(params.difficulty, context) as difficulty:
        collector = RowCollector.of_stage(params, context, difficulty, progress, text_filters(params))
        datasets = tuple(found.path for found in context.inputs("dataset"))
        for position, (share, want) in enumerate(zip(params.sources, counts, strict=True)):
            scratch = context.scratch / f"source-{position}"
            scratch.mkdir()
            limit = collector.limit(want)
            request = SourceRequest(seed=context.seed, limit=limit, scratch=scratch, datasets=datasets)
            opened = share.source.resolve()(request)
            fitting = lengths.fitting(opened) if lengths else opened
            collector.take(fitting, limit=limit, position=position, domain=share.domain, want=want)
        settle(collector.collection, collector.checks, params.contradictions, context)
        if lengths:
            lengths.tell()
        return collector.collection


def _write(
    context: StageContext[CurateParams],
    collection: CollectedRows,
    drafts: list[Candidate],
    rows: Iterator[dict[str, Any]],
) -> None:
    params = context.params
    ports = ("dataset", "policy", "against", *(port for port in LATER_PORTS if context.inputs(port)))
    write_dataset(context, collection, drafts, rows, kind=params.kind, ports=ports, tokens=_tokens(context))
    write_origins(context.output("report"), drafts, len(params.sources))


def _tokens(context: StageContext[CurateParams]) -> TokenCount | None:
    models = context.inputs("policy")
    return TokenCount(models[0].path if models else None) if context.params.count_tokens else None
