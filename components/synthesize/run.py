"""The synthesize stage: writers write, a generator makes rows of it, and curate's chain cleans them."""

from __future__ import annotations

from collections import Counter
from functools import partial

from components.contract.context import StageContext
from components.contract.errors import StageFailed
from components.contract.further import FURTHER, JUDGES, SCORERS, TEACHERS
from components.contract.operators import OperatorSpec
from components.curation.chain import opened_difficulty
from components.curation.collect import UNLIMITED, CollectedRows, RowCollector
from components.curation.output import write_dataset
from components.modeling.serving.further import FurtherModels
from components.synthesize.context import GeneratorContext
from components.synthesize.items import read_items, read_ledgers, read_rollouts
from components.synthesize.making import Maker
from components.synthesize.params import SynthesizeParams
from components.synthesize.rendering import render_rows
from components.synthesize.writers import ModelWriter, ProgramWriter, TaskWriter, Writers
from components.tasks.seeds import derive_rng
from components.tasks.source import SourceRows

PORTS = ("dataset", *FURTHER, "rollouts", "ledger", "policy", "against")


def run(context: StageContext[SynthesizeParams]) -> None:
    """Make the dataset; equal parameters, inputs, seed and answers of endpoints give equal bytes."""
    params = context.params
    with FurtherModels(context, *FURTHER, alone=params.difficulty is None) as further:
        writers = Writers(
            teachers=[*map(ModelWriter, further.of(TEACHERS)), *_programs(params.programs)],
            judges=[*map(ModelWriter, further.of(JUDGES)), *_programs(params.judge_programs)],
            scorers=further.of(SCORERS),
        )
        collection, num_items = _collect(context, writers)
        further.write_answers(context.output("metrics"))
    _require_rows(params, collection)
    drafts = list(collection.kept)
    if params.shuffle:
        derive_rng(context.seed, "shuffle").shuffle(drafts)
    kind = params.making.kind
    more = {"num_items": float(num_items)}
    write_dataset(context, collection, drafts, render_rows(drafts, kind), kind=kind, ports=PORTS, more=more)


def _collect(context: StageContext[SynthesizeParams], writers: Writers) -> tuple[CollectedRows, int]:
    params = context.params
    ledger = read_ledgers(context.inputs("ledger"))
    items = read_items(context, ledger) if params.making.seeded else []
    of_chunk = partial(GeneratorContext, pool=items, rollouts=read_rollouts(context.inputs("rollouts")), ledger=ledger)
    maker = Maker(context, items, writers, of_chunk)
    checked = params if params.making.labelled else params.model_copy(update={"verifiability": None})
    with opened_difficulty(params.difficulty, context) as difficulty:
        if difficulty is not None:
            measured = difficulty  # checkpoints are numbered by the chunks made and the chunks measured together
            maker.step = measured.step = lambda: maker.num_chunks + measured.num_chunks
        collector = RowCollector.of_stage(checked, context, difficulty)
        opened = SourceRows(maker.rows(), {"source": params.generator.name, "num_items": len(items)})
        collector.take(opened, limit=UNLIMITED, position=0, domain=None, want=params.size)
    return collector.collection, len(items)


def _programs(specs: tuple[OperatorSpec, ...]) -> list[TaskWriter]:
    """Return the programs by name; of several with one name, later ones have a number."""
    counts: Counter[str] = Counter()
    found: list[TaskWriter] = []
    for spec in specs:
        bound = spec.resolve()
        counts[bound.shown] += 1
        number = counts[bound.shown]
        found.append(ProgramWriter(bound, bound.shown if number == 1 else f"{bound.shown}-{number}"))
    return found


def _require_rows(params: SynthesizeParams, collection: CollectedRows) -> None:
    """Raise StageFailed, with the counts by reason, for no rows at all or less than `min_share` of `size`."""
    made, least = len(collection.kept), 1 if params.size is None else max(1.0, params.min_share * params.size)
    if made >= least:
        return
    drops: Counter[str] = Counter()
    for tally in collection.tallies:
        drops.update(tally.drops)
    reasons = ", ".join(f"{count} {reason}" for reason, count in drops.most_common()) or "the writers wrote nothing"
    asked = "" if params.size is None else f" of {params.size}, less than min_share {params.min_share:g}"
    raise StageFailed(f"{made} rows were made{asked}; dropped: {reasons}")
