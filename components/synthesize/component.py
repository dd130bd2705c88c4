"""Declaration of the synthesize stage."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from components.contract.artifacts import ArtifactType
from components.contract.component import Component, Port
from components.contract.display import Role
from components.contract.further import FURTHER, JUDGES, SCORERS, TEACHERS, further_ports
from components.contract.heads import Head
from components.contract.job import Resources
from components.contract.memory import MemoryEstimate
from components.contract.operators import Bound
from components.curation.display import rows_before_and_after
from components.curation.pages.place import CARD
from components.modeling.estimates.further_memory import further_needs
from components.modeling.estimates.memory_needs import process_needs
from components.modeling.estimates.sampling_memory import sampling_memory
from components.modeling.models.model_sizes import ModelSizes
from components.modeling.models.preloads import MODEL_PRELOADS
from components.pages.pages import DOCUMENT
from components.synthesize.params import SynthesizeParams


def sources(params: SynthesizeParams) -> Iterator[Bound | str | Path]:
    """Yield the generator, the programs, and the page."""
    yield from (CARD, DOCUMENT)
    yield params.generator.resolve()
    yield from (program.resolve() for program in (*params.programs, *params.judge_programs))


def asks(params: SynthesizeParams) -> dict[str, list[str]]:
    """Return the ports of writers and judges, required where no program stands in, and of what pass rates need."""
    making, name = params.making, f"generator {params.generator.name!r}"
    found: dict[str, list[str]] = {}
    if making.writes:
        found[TEACHERS] = [] if params.programs else [name]
    if making.judges:
        found[JUDGES] = [] if params.judge_programs else [name]
    if making.scorers:
        found[SCORERS] = [name]
    if params.pass_rate:
        found["ledger"] = ["pass_rate"]
    if params.difficulty:
        found["policy"] = ["difficulty"]
    return found


def heads(params: SynthesizeParams) -> dict[str, frozenset[Head]]:
    """Return what scorers must give: log-probabilities of texts, or rewards, as the generator asks them."""
    return {SCORERS: type(params.making).asks_heads}


def memory(params: SynthesizeParams, model: ModelSizes | None, resources: Resources) -> MemoryEstimate | None:
    """Return the memory of the policy that measures difficulty; without it, of the process alone."""
    if params.difficulty:
        return sampling_memory(params, model, resources)
    return MemoryEstimate(tuple(process_needs(resources)), 1)


COMPONENT = Component(
    name="synthesize",
    summary="Write new rows with models, endpoints or programs, and clean them by curate's chain",
    inputs={
        "dataset": Port(
            type=ArtifactType.DATASET, doc="Items, or texts, that rows are made from", optional=True, many=True
        ),
        "rollouts": Port(
            type=ArtifactType.ROLLOUTS, doc="Recorded responses of a training, by item", optional=True, many=True
        ),
        "ledger": Port(
            type=ArtifactType.METRICS,
            doc="Evaluations or trainings whose pass rates choose items",
            optional=True,
            many=True,
        ),
        "policy": Port(type=ArtifactType.MODEL, doc="The model whose pass rate measures difficulty", optional=True),
        "against": Port(
            type=ArtifactType.DATASET, doc="Evaluation sets that must not leak into the rows", optional=True, many=True
        ),
        **further_ports(*FURTHER),
    },
    outputs={
        "dataset": Port(type=ArtifactType.DATASET, doc="The rows with their card"),
        "metrics": Port(type=ArtifactType.METRICS, doc="Counts, and all answers of endpoints"),
        "report": Port(type=ArtifactType.REPORT, doc="The card as a page: histograms, drops by reason, samples"),
    },
    params=SynthesizeParams,
    run="components.synthesize.run:run",
    backends=frozenset({"sampler"}),
    model_sizes=ModelSizes.from_config,
    memory=memory,
    further_memory=further_needs,
    asks=asks,
    heads=heads,
    preloads=MODEL_PRELOADS,
    metrics={
        "num_rows": "Rows of the dataset",
        "num_drawn": "Texts that writers wrote, and rows made of them",
        "num_dropped": "Texts and rows that were dropped, for any reason",
        "num_missing": "Rows that were asked for and could not be had",
        "num_items": "Items that rows were made from",
        "dropped_<reason>": "Texts and rows dropped for one reason, such as wrong, unfinished or duplicate",
        "mean_pass_rate": "Mean pass rate of the kept rows under the given policy",
    },
    role=Role.DATA,
    report=(
        rows_before_and_after(
            "Made rows", "Each dataset that writers made. Bars: rows before the chain of checks, and after."
        ),
    ),
    sources=sources,
    verifies=lambda _: ("dataset", "rollouts"),
)
