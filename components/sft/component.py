"""Declaration of the sft stage."""

from __future__ import annotations

from components.contract.artifacts import ArtifactType
from components.contract.component import Component, Port
from components.contract.display import Role
from components.contract.further import TEACHERS
from components.contract.job import Resources
from components.contract.memory import MemoryEstimate
from components.modeling.estimates.distillation_memory import teacher_needs
from components.modeling.estimates.supervised_memory import supervised_memory
from components.modeling.models.model_sizes import ModelSizes
from components.modeling.models.preloads import MODEL_PRELOADS
from components.modeling.supervised.alarms import SUPERVISED_ALARMS
from components.modeling.supervised.curves import SUPERVISED_CURVES
from components.sft.params import SftParams


def memory(params: SftParams, model: ModelSizes | None, resources: Resources) -> MemoryEstimate | None:
    """Return the memory of the training; with a distillation also that of the start as its own teacher."""
    estimate = supervised_memory(params, model, resources)
    if estimate is None or model is None or params.distillation is None or params.distillation.teacher == "input":
        return estimate
    return estimate.beside(teacher_needs(TEACHERS, model, params, resources))


def asks(params: SftParams) -> dict[str, list[str]]:
    """Return the port of a distillation's teacher, where it is not the start."""
    wanted = params.distillation is not None and params.distillation.teacher == "input"
    return {TEACHERS: ["distillation with `teacher: input`"]} if wanted else {}


COMPONENT = Component(
    name="sft",
    summary="Supervised fine-tuning: next-token loss on the responses of demonstrations",
    inputs={
        "model": Port(type=ArtifactType.MODEL, doc="The model to start from"),
        "dataset": Port(
            type=ArtifactType.DATASET, doc="Demonstrations (prompt and response, perhaps a weight)", many=True
        ),
        "validation": Port(
            type=ArtifactType.DATASET, doc="Demonstrations to measure the loss on", many=True, optional=True
        ),
        TEACHERS: Port(
            type=ArtifactType.MODEL,
            doc="The teacher of `distillation: {teacher: input}`, with the model's tokenizer",
            optional=True,
            further=True,
        ),
    },
    outputs={
        "model": Port(type=ArtifactType.MODEL, doc="The fine-tuned model"),
        "metrics": Port(type=ArtifactType.METRICS, doc="Final losses, and a row per logged step"),
        "checkpoints": Port(type=ArtifactType.CHECKPOINTS, doc="Models kept along the way (save_every)", optional=True),
    },
    params=SftParams,
    run="components.sft.run:run",
    forks="components.modeling.supervised.forking:misfits",
    backends=frozenset({"trainer"}),
    model_sizes=ModelSizes.from_config,
    memory=memory,
    further_memory=teacher_needs,
    asks=asks,
    preloads=MODEL_PRELOADS,
    metrics={
        "loss": "Loss per target token, mean of the last 10 logged steps",
        "validation_loss": "Loss per target token on the validation input",
        "epochs": "Passes over the examples",
        "num_examples": "Examples that were drawn from",
        "padding_avoided": "Share of padding that batches would have had as rectangles",
        "num_targets": "Target tokens trained on, repeats included",
        "num_weightless": "Demonstrations left out because their weight is 0; only where there are any",
        "num_overlong": "Demonstrations left out because they exceed max_tokens or the model's positions",
        "num_cut": "Demonstrations cut on the left for the same reason (overlong); only where there are any",
        "num_bad": "Rows left out because they cannot be trained on (bad_rows); only where there are any",
        "num_overlong_validation": "Validation rows beyond the model's positions, left out; only where there are any",
    },
    role=Role.TRAINING,
    alarms=SUPERVISED_ALARMS,
    report=(SUPERVISED_CURVES,),
)
