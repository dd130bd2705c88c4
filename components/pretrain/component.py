"""Declaration of the pretrain stage."""

from __future__ import annotations

from components.contract.artifacts import ArtifactType
from components.contract.component import Component, Port
from components.contract.display import Role
from components.modeling.estimates.supervised_memory import supervised_memory
from components.modeling.models.model_sizes import ModelSizes
from components.modeling.models.preloads import MODEL_PRELOADS
from components.modeling.supervised.alarms import SUPERVISED_ALARMS
from components.modeling.supervised.curves import SUPERVISED_CURVES
from components.pretrain.params import PretrainParams

COMPONENT = Component(
    name="pretrain",
    summary="Language-model training from scratch, with its own tokenizer, or continued from a given model",
    inputs={
        "dataset": Port(
            type=ArtifactType.DATASET,
            doc="Corpus (text), or demonstrations (prompt and response) of which every token is a target",
            many=True,
        ),
        "model": Port(type=ArtifactType.MODEL, doc="A model to continue from", optional=True),
        "validation": Port(type=ArtifactType.DATASET, doc="Rows to measure the loss on", many=True, optional=True),
    },
    outputs={
        "model": Port(type=ArtifactType.MODEL, doc="The trained model"),
        "metrics": Port(type=ArtifactType.METRICS, doc="Final losses, and a row per logged step"),
        "checkpoints": Port(type=ArtifactType.CHECKPOINTS, doc="Models kept along the way (save_every)", optional=True),
    },
    params=PretrainParams,
    run="components.pretrain.run:run",
    forks="components.modeling.supervised.forking:misfits",
    backends=frozenset({"trainer"}),
    model_sizes=ModelSizes.from_config,
    memory=supervised_memory,
    preloads=MODEL_PRELOADS,
    metrics={
        "loss": "Loss per token, mean of the last 10 logged steps",
        "validation_loss": "Loss per token on the validation input",
        "epochs": "Passes over the examples",
        "num_examples": "Examples that were drawn from",
        "padding_avoided": "Share of padding that batches would have had as rectangles",
        "num_targets": "Tokens trained on, repeats included",
        "vocab_size": "Tokens of the vocabulary",
    },
    role=Role.PRETRAINING,
    alarms=SUPERVISED_ALARMS,
    report=(SUPERVISED_CURVES,),
)
