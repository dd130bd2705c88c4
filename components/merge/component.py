"""Declaration of the merge stage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from components.contract.artifacts import ArtifactType
from components.contract.component import Component, Given, Port
from components.contract.display import Column, Form, Role, Table
from components.contract.errors import InputError
from components.contract.job import Resources
from components.contract.memory import MemoryEstimate, Need
from components.contract.operators import Bound
from components.merge.agreement import Named, check_agreement
from components.merge.params import MergeParams
from components.modeling.estimates.memory_needs import process_needs
from components.modeling.models.model_sizes import ModelSizes

BLOCKS = 256 * (1 << 20)
"""Bytes of the blocks of two models, their base, and what is made of them, which a test measures."""


def sources(params: MergeParams) -> Iterator[Bound]:
    """Yield the merger."""
    yield params.merger.resolve()


def asks(params: MergeParams) -> dict[str, list[str]]:
    """Return the optional ports with the mergers that require them."""
    asked = {port for candidate in params.candidates for port in candidate.config.asked}
    return {port: [f"merger {params.merger.name!r}"] if port in asked else [] for port in ("base", "probe")}


def outputs(params: MergeParams) -> tuple[str, ...]:
    """Return the outputs that there are with these parameters."""
    return ("checkpoints" if params.sweep else "model", "report")


def refuses_models(params: MergeParams, given: Mapping[str, Sequence[Given | None]]) -> Iterator[str]:
    """Yield why models cannot be merged: their number, or the first difference of those that are here."""
    models, bases = given.get("models", ()), given.get("base", ())
    places = [(f"models[{position}]", one) for position, one in enumerate(models)] + [("base", one) for one in bases]
    named = [Named(place, one.folder) for place, one in places if one is not None and one.folder is not None]
    try:
        for candidate in params.candidates:
            candidate.config.check_count(len(models))
        if len(named) > 1:
            check_agreement(named, same_tokenizer=params.tokenizers == "equal")
    except InputError as error:
        yield str(error)


def memory(params: MergeParams, model: ModelSizes | None, resources: Resources) -> MemoryEstimate:
    """Return the memory of one process: blocks of tensors, whatever the models' sizes, and what low rank takes."""
    needs = [*process_needs(resources), Need("blocks of tensors", BLOCKS, on_host=True)]
    if model is not None and params.merger.name == "weight_edit":
        needs.append(Need("the model that the probe reads", 4 * model.parameters))
    if model is not None and params.merger.name == "low_rank":
        wide = model.width * max(model.mlp_width, model.heads * model.head_width)  # whole in float32 and in float64
        needs.append(Need("products of a matrix", 12 * wide + 5 * 8 * model.width**2, on_host=True))
    return MemoryEstimate(tuple(needs), 1, model)


COMPONENT = Component(
    name="merge",
    summary="Make one model of the weights of several, without training; a sweep makes one for each setting",
    inputs={
        "models": Port(type=ArtifactType.MODEL, doc="Models of one architecture and vocabulary, in order", many=True),
        "base": Port(
            type=ArtifactType.MODEL, doc="The model that they were trained from, for task vectors", optional=True
        ),
        "probe": Port(
            type=ArtifactType.DATASET,
            doc="Responses with a behaviour and without it, which tell weight_edit its direction",
            many=True,
            optional=True,
        ),
    },
    outputs={
        "model": Port(type=ArtifactType.MODEL, doc="The merged model, without a sweep"),
        "checkpoints": Port(type=ArtifactType.CHECKPOINTS, doc="A model for each setting, with a sweep"),
        "report": Port(type=ArtifactType.REPORT, doc="weight_update.json: how far weights moved, by layer and kind"),
    },
    params=MergeParams,
    run="components.merge.run:run",
    image="cpu",
    preloads=("torch",),
    model_sizes=ModelSizes.from_config,
    memory=memory,
    metrics={
        "moved": "Distance of the merged model from the base (else from the first model), as a share of its norm",
        "cosine": "Mean cosine between the models' task vectors",
        "sign_conflicts": "Share of the weights moved by several models to which they give different signs",
        "probe_accuracy": "Share of held-out responses whose behaviour a linear probe of the first model tells",
        "num_models": "Models that were merged",
        "num_tensors": "Tensors that were merged",
        "num_candidates": "Models of a sweep",
    },
    unmeasured=lambda params, metric: (
        "a sweep makes several models"
        if metric == "moved" and params.sweep
        else "there is no sweep"
        if metric == "num_candidates" and not params.sweep
        else None
    ),
    role=Role.OTHER,
    report=(
        Table(
            title="Weight update",
            lead="How far weights moved from the base, by layer and by kind of tensor.",
            port="report",
            file="weight_update.json",
            rows="rows",
            text="note",
            marked=("by", "all"),
            columns=(
                Column(value="part", title="part"),
                Column(value="moved.<model>", title="<model>, moved by %", form=Form.SHARE),
                Column(value="cosine.<pair>", title="cosine of <pair>", form=Form.NUMBER, digits=3),
                Column(value="sign_conflicts", title="sign conflicts, %", form=Form.SHARE),
            ),
        ),
    ),
    sources=sources,
    asks=asks,
    outputs_of=outputs,
    refuses_models=refuses_models,
)
