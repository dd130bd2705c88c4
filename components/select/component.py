"""Declaration of the select stage."""

from __future__ import annotations

from components.contract.artifacts import ArtifactType
from components.contract.component import Component, Port
from components.contract.display import Column, Form, Role, Table
from components.measure.chosen_params import chosen_metrics
from components.modeling.estimates.sampling_memory import choosing_memory
from components.modeling.models.model_sizes import ModelSizes
from components.modeling.models.preloads import MODEL_PRELOADS
from components.select.params import SelectParams


def _asked(params: SelectParams) -> dict[str, list[str]]:
    return {"baseline": ["rule 'elbow'"]} if params.rule == "elbow" else {}


COMPONENT = Component(
    name="select",
    summary="Choose one of many models on a development set, under constraints; losers stay on record",
    inputs={
        "checkpoints": Port(
            type=ArtifactType.CHECKPOINTS, doc="Candidates: every model of these", many=True, optional=True
        ),
        "models": Port(type=ArtifactType.MODEL, doc="Candidates beside the checkpoints", many=True, optional=True),
        "dataset": Port(type=ArtifactType.DATASET, doc="Development prompts, not the final test set", many=True),
        "baseline": Port(
            type=ArtifactType.MODEL, doc="What constraints compare with, measured on the same prompts", optional=True
        ),
        "baseline_metrics": Port(
            type=ArtifactType.METRICS,
            doc="The same from an earlier evaluation on the same prompts (pass@k constraints only)",
            optional=True,
        ),
    },
    outputs={
        "model": Port(type=ArtifactType.MODEL, doc="The chosen model"),
        "metrics": Port(type=ArtifactType.METRICS, doc="The chosen model's metrics, pass-rate ledger and samples"),
        "report": Port(type=ArtifactType.REPORT, doc="selection.json: every candidate with numbers and reasons"),
    },
    params=SelectParams,
    run="components.select.run:run",
    backends=frozenset({"sampler"}),
    model_sizes=ModelSizes.from_config,
    memory=choosing_memory,
    metrics_of=chosen_metrics,
    preloads=MODEL_PRELOADS,
    metrics={
        "objective": "The chosen model's objective on the development set (optimistic: it is the best of several)",
        "pass_at_1_<domain>": "The chosen model's pass@1 on one domain",
        "num_candidates": "Distinct models that were measured",
        "num_rejected": "Candidates that break a constraint",
        "num_tied": "Eligible candidates that cannot be told from the best",
        "position": "Place of the chosen one in the list of candidates, from 1",
        "divergence": "KL of the chosen one to the baseline, in nats a response; with rule elbow only",
    },
    role=Role.CHOOSING,
    report=(
        Table(
            title="Checkpoint selection",
            lead="Every checkpoint was evaluated on the development set; training reward played no part.",
            port="report",
            file="selection.json",
            rows="candidates",
            text="reason",
            marked=("status", "chosen"),
            columns=(
                Column(value="name", title="candidate"),
                Column(value="objective", title="objective, %", form=Form.SHARE),
                Column(value="behind_best", title="behind the best, %", form=Form.SHARE),
                Column(value="metrics.pass_at_1_<domain>", title="pass@1 <domain>, %", form=Form.SHARE),
                Column(value="status", then="broken", title="verdict", form=Form.WORDS),
            ),
        ),
    ),
    verifies=lambda _: ("dataset",),
    asks=_asked,
)
