"""Declaration of the curate stage."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from components.contract.artifacts import ArtifactType
from components.contract.component import Component, Port
from components.contract.display import Bars, Role
from components.contract.job import Resources
from components.contract.memory import MemoryEstimate
from components.contract.operators import Bound
from components.curate.params import CurateParams
from components.modeling.estimates.sampling_memory import sampling_memory
from components.modeling.models.model_sizes import ModelSizes
from components.pages.pages import DOCUMENT
from components.tasks.modules import verifier_modules
from components.tasks.source import SourceConfig

CARD = Path(__file__).parent / "pages" / "card.html"


def sources(params: CurateParams) -> Iterator[Bound | str | Path]:
    """Yield the chosen sources and demonstrators, the verifiers that rows of the sources may name, and the page."""
    yield from (CARD, DOCUMENT)
    for share in params.sources:
        source = share.source.resolve()
        yield source
        yield from (choice.demonstrator.resolve() for choice in share.demonstrators)
        if verifies(params):
            told = source.config.verifiers() if isinstance(source.config, SourceConfig) else None
            yield from verifier_modules(told)


def verifies(params: CurateParams) -> tuple[str, ...]:
    """Return the input whose rows are verified, if any."""
    return ("dataset",) if params.verifiability or params.difficulty else ()


def memory(params: CurateParams, model: ModelSizes | None, resources: Resources) -> MemoryEstimate | None:
    """Return the memory of the policy that measures difficulty; None without difficulty."""
    return sampling_memory(params, model, resources) if params.difficulty else None


COMPONENT = Component(
    name="curate",
    summary="Make a dataset: draw rows, remove duplicates, leaks and unverifiable rows, keep a range of difficulty",
    inputs={
        "dataset": Port(type=ArtifactType.DATASET, doc="Datasets for the source `artifact`", optional=True, many=True),
        "policy": Port(type=ArtifactType.MODEL, doc="The model whose pass rate measures difficulty", optional=True),
        "against": Port(
            type=ArtifactType.DATASET,
            doc="Evaluation sets that must not leak into the dataset",
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
    memory=memory,
    preloads=("reasoning_gym",),
    metrics={
        "num_rows": "Rows of the dataset",
        "num_drawn": "Rows that the sources gave",
        "num_dropped": "Rows that were dropped, for any reason",
        "num_missing": "Rows that were asked for and could not be had",
        "mean_pass_rate": "Mean pass rate of the kept rows under the given policy",
    },
    role=Role.DATA,
    report=(
        Bars(
            title="Data",
            lead="Each dataset as it was curated. Bars: before filtering, and after.",
            port="dataset",
            file="card.json",
            bars="histograms",
            groups=("before", "after"),
            facts={
                "num_rows": "{} rows",
                "kind": "kind: {}",
                "num_drawn": "{} drawn",
                "drops.<reason>": "dropped as <reason>: {}",
            },
        ),
    ),
    sources=sources,
    verifies=verifies,
)
