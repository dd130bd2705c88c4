"""Declaration of the curate stage."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from components.contract.artifacts import ArtifactType
from components.contract.component import Component, Port
from components.contract.display import Role
from components.contract.further import SCORERS
from components.contract.heads import SCORES
from components.contract.job import Resources
from components.contract.memory import MemoryEstimate
from components.contract.operators import Bound, OperatorSpec
from components.contract.sharding import Sharding
from components.curate.params import CurateParams, readable
from components.curate.selection.config import MixtureConfig, SelectorConfig
from components.curation.display import rows_before_and_after
from components.curation.pages.place import CARD
from components.modeling.estimates.further_memory import further_needs
from components.modeling.estimates.memory_needs import process_needs
from components.modeling.estimates.sampling_memory import sampling_memory
from components.modeling.models.model_sizes import ModelSizes
from components.pages.pages import DOCUMENT
from components.tasks.modules import verifier_modules
from components.tasks.slots import DEMONSTRATOR
from components.tasks.source import SourceConfig


def sources(params: CurateParams) -> Iterator[Bound | str | Path]:
    """Yield the chosen operators, the verifiers that rows of the sources may name, and the page."""
    yield from (CARD, DOCUMENT)
    yield params.mixture.resolve()
    for selector in params.selectors:
        yield selector.resolve()
        if selector.name == "influence":  # of rows without a response
            yield OperatorSpec(name="gold").resolve(DEMONSTRATOR)
    for share in params.sources:
        source = share.source.resolve()
        yield source
        yield from (choice.demonstrator.resolve() for choice in share.demonstrators)
        if verifies(params):
            yield from verifier_modules(_told(source))


def _told(source: Bound) -> tuple[str, ...] | None:
    return source.config.verifiers() if isinstance(source.config, SourceConfig) else None


def row_verifiers(params: CurateParams) -> frozenset[str] | None:
    """Return the verifiers that rows of the sources may name, or None if one of these cannot tell."""
    told = [_told(share.source.resolve()) for share in params.sources]
    return None if None in told else frozenset(name for names in told if names is not None for name in names)


def verifies(params: CurateParams) -> tuple[str, ...]:
    """Return the input whose rows are verified, if any."""
    return ("dataset",) if params.verifiability or params.difficulty else ()


def asks(params: CurateParams) -> dict[str, list[str]]:
    """Return the inputs that selectors, the mixture and the measurement of difficulty need."""
    found: dict[str, list[str]] = {"policy": ["difficulty"]} if params.difficulty else {}
    for bound in readable((*params.selectors, params.mixture)):
        needs = bound.config.inputs if isinstance(bound.config, SelectorConfig) else ()
        needs = bound.config.needs if isinstance(bound.config, MixtureConfig) else needs
        for port in needs:
            found.setdefault(port, []).append(f"{bound.slot} {bound.shown!r}")
    return found


def memory(params: CurateParams, model: ModelSizes | None, resources: Resources) -> MemoryEstimate | None:
    """Return the memory of the policy that measures difficulty, or of asking scorers; None without both."""
    if params.difficulty:
        return sampling_memory(params, model, resources)
    return MemoryEstimate(tuple(process_needs(resources)), 1) if SCORERS in asks(params) else None


COMPONENT = Component(
    name="curate",
    summary="Make a dataset: draw rows, remove duplicates, leaks and unverifiable rows, keep a range of difficulty",
    inputs={
        "dataset": Port(type=ArtifactType.DATASET, doc="Datasets for the source `artifact`", optional=True, many=True),
        "policy": Port(
            type=ArtifactType.MODEL,
            doc="The model that measures difficulty, that selectors read, or whose tokenizer counts tokens",
            optional=True,
        ),
        "ledger": Port(
            type=ArtifactType.METRICS,
            doc="Metrics of rl or evaluate stages, whose pass rates selectors and mixtures read",
            optional=True,
            many=True,
        ),
        "targets": Port(
            type=ArtifactType.DATASET,
            doc="Rows that selectors compare with: labelled prompts, or what is to be learnt",
            optional=True,
            many=True,
        ),
        SCORERS: Port(
            type=ArtifactType.MODEL,
            doc="Reward models that selectors ask",
            optional=True,
            many=True,
            further=True,
            heads=SCORES,
        ),
        "mixture": Port(
            type=ArtifactType.METRICS, doc="Metrics of a tabulate stage that fitted a mixture", optional=True
        ),
        "against": Port(
            type=ArtifactType.DATASET,
            doc="Evaluation sets that must not leak into the dataset",
            optional=True,
            many=True,
        ),
        "shards": Port(
            type=ArtifactType.PARTS,
            doc="What the shards kept, where `shards` divides the work; the recipe connects it by itself",
            optional=True,
            many=True,
        ),
    },
    outputs={
        "dataset": Port(type=ArtifactType.DATASET, doc="The rows with their card"),
        "metrics": Port(type=ArtifactType.METRICS, doc="Counts, and the mean pass rate"),
        "report": Port(type=ArtifactType.REPORT, doc="The card as a page: histograms before and after, drops, samples"),
    },
    params=CurateParams,
    run="components.curate.run:run",
    image="cpu",
    backends=frozenset({"sampler"}),
    model_sizes=ModelSizes.from_config,
    asks=asks,
    memory=memory,
    further_memory=further_needs,
    row_verifiers=row_verifiers,
    preloads=("reasoning_gym",),
    metrics={
        "num_rows": "Rows of the dataset",
        "num_drawn": "Rows that the sources gave",
        "num_dropped": "Rows that were dropped, for any reason",
        "dropped_<reason>": "Rows dropped for one reason, such as duplicate, or one of a selector's",
        "num_missing": "Rows that were asked for and could not be had",
        "num_tokens": "Tokens of all rows, where `count_tokens` is set and a tokenizer is there",
        "num_words": "Words of all rows, where `count_tokens` is set and no tokenizer is there",
        "mean_pass_rate": "Mean pass rate of the kept rows under the given policy",
    },
    role=Role.DATA,
    report=(rows_before_and_after("Data", "Each dataset as it was curated. Bars: before filtering, and after."),),
    sources=sources,
    verifies=verifies,
    sharding=Sharding(
        count=lambda params: params.shards,
        port="shards",
        output="parts",
        inputs=("dataset", "against"),
        joins=("shuffle", "count_tokens"),
    ),
    shard_outputs={
        "parts": Port(type=ArtifactType.PARTS, doc="Rows that passed their own checks, with what tells duplicates")
    },
)
