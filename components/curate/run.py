"""The curate stage: draw, check, grade and write rows, and report the counts."""

from __future__ import annotations

from collections import Counter
from contextlib import closing, nullcontext
from typing import Any

from components.contract.context import StageContext
from components.contract.errors import InputError
from components.curate.candidate import Candidate, RowCheck
from components.curate.collect import CollectedRows, RowCollector
from components.curate.operators.decontaminate import Contamination, evaluation_prompts
from components.curate.operators.dedup import ExactDuplicates, NearDuplicates
from components.curate.operators.difficulty import Difficulty
from components.curate.operators.verifiability import Verifiability
from components.curate.pages.card import build_card, write_card
from components.curate.pages.page import render_page
from components.curate.pages.render import render_rows
from components.curate.params import CurateParams, SourceShare
from components.curate.split import HashSplit
from components.measure.intervals import Bootstrap, Interval
from components.measure.metrics import write_metrics
from components.tasks.rows import iter_rows, write_rows
from components.tasks.seeds import derive_rng
from components.tasks.source import SourceRequest

PROGRESS_EVERY = 64


def run(context: StageContext[CurateParams]) -> None:
    """Make the dataset of the parameters; equal parameters, inputs and seed give equal bytes."""
    params = context.params
    counts = allot(params.sources, params.size)
    collection = _collect(context, counts)
    drafts = list(collection.kept)
    if params.shuffle:
        derive_rng(context.seed, "shuffle").shuffle(drafts)
    _write(context, collection, drafts)


def allot(sources: tuple[SourceShare, ...], size: int | None) -> list[int | None]:
    """Return how many rows each source gives: its count, or its share of what `size` leaves, by largest remainder.

    None means all rows of the source. Raises InputError if the counts exceed `size`.
    """
    if size is None:
        return [share.count for share in sources]
    left = size - sum(share.count for share in sources if share.count is not None)
    if left < 0:
        raise InputError(f"size: the sources' counts add up to {size - left}, more than the size {size}")
    total = sum(share.weight for share in sources if share.count is None)
    exact = [0.0 if share.count is not None else left * share.weight / total for share in sources]
    floors = [int(value) for value in exact]
    by_remainder = sorted(range(len(sources)), key=lambda i: (floors[i] - exact[i], i))
    open_sources = [i for i in by_remainder if sources[i].count is None]
    for index in open_sources[: left - sum(floors)]:
        floors[index] += 1
    return [share.count if share.count is not None else floors[i] for i, share in enumerate(sources)]


def _collect(context: StageContext[CurateParams], counts: list[int | None]) -> CollectedRows:
    params = context.params
    if params.difficulty and not context.inputs("policy"):
        raise InputError("difficulty: no model is connected; give the stage `in: {policy: STAGE.model}`")
    total = sum(count or 0 for count in counts)

    def progress(done: int) -> None:
        if done % PROGRESS_EVERY == 0:
            context.progress(done, max(total, done))

    with closing(Difficulty(params.difficulty, context)) if params.difficulty else nullcontext() as difficulty:
        collector = RowCollector(
            checks=_checks(context),
            difficulty=difficulty,
            candidates=params.difficulty.candidates if params.difficulty else 1.0,
            kept_share=params.split[1] - params.split[0],
            progress=progress,
        )
        datasets = tuple(found.path for found in context.inputs("dataset"))
        for position, (share, want) in enumerate(zip(params.sources, counts, strict=True)):
            scratch = context.scratch / f"source-{position}"
            scratch.mkdir()
            request = SourceRequest(seed=context.seed, limit=0, scratch=scratch, datasets=datasets)
            source = share.source.resolve()
            collector.take(source, request, position=position, domain=share.domain, want=want)
        return collector.collection


def _checks(context: StageContext[CurateParams]) -> list[RowCheck]:
    """Return the checks in order, cheap ones first; a row is dropped for the first one it fails."""
    params = context.params
    checks: list[RowCheck] = []
    if params.split != (0.0, 1.0):
        checks.append(HashSplit(*params.split))
    if params.dedup.exact:
        checks.append(ExactDuplicates())
    against = [found.path for found in context.inputs("against")]
    if against and params.decontaminate:
        checks.append(Contamination(evaluation_prompts(against), params.decontaminate))
    if params.dedup.near:
        checks.append(NearDuplicates(params.dedup.near))
    if params.verifiability:
        checks.append(Verifiability(params.verifiability, context.seed))
    return checks


def _write(context: StageContext[CurateParams], collection: CollectedRows, drafts: list[Candidate]) -> None:
    params = context.params
    folder = context.output("dataset")
    write_rows(folder, render_rows(drafts, params, context.seed))
    inputs = {port: [found.digest for found in context.inputs(port)] for port in ("dataset", "policy", "against")}
    card = build_card(collection, (row for _, row in iter_rows(folder)), params, inputs)
    write_card(folder, card)
    context.describe("dataset", kind=params.kind, num_rows=card["num_rows"], domains=card["domains"]["after"])
    (context.output("report") / "index.html").write_text(render_page(card), encoding="utf-8")
    metrics = _metrics(card, drafts)
    write_metrics(context.output("metrics"), metrics)
    context.headline(**{n: value.value if isinstance(value, Interval) else value for n, value in metrics.items()})
    context.progress(card["num_rows"], max(1, card["num_rows"]))


def _metrics(card: dict[str, Any], drafts: list[Candidate]) -> dict[str, Interval | float]:
    drops = Counter(card["drops"])
    metrics: dict[str, Interval | float] = {
        "num_rows": float(card["num_rows"]),
        "num_drawn": float(card["num_drawn"]),
        "num_dropped": float(drops.total()),
        "num_missing": float(card["num_missing"]),
        **{f"dropped_{reason}": float(count) for reason, count in sorted(drops.items())},
    }
    rates = [draft.extras["pass_rate"] for draft in drafts if "pass_rate" in draft.extras]
    if rates:
        metrics["mean_pass_rate"] = Bootstrap().mean_interval(rates)
    return metrics
