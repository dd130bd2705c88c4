"""Declaration of the replay stage."""

from __future__ import annotations

from components.contract.artifacts import ArtifactType
from components.contract.component import Component, Port
from components.contract.display import Role
from components.modeling.estimates.supervised_memory import supervised_memory
from components.modeling.models.model_sizes import ModelSizes
from components.modeling.models.preloads import MODEL_PRELOADS
from components.modeling.supervised.alarms import SUPERVISED_ALARMS
from components.modeling.supervised.curves import SUPERVISED_CURVES
from components.replay.params import ReplayParams

COMPONENT = Component(
    name="replay",
    summary="Rehearse what was forgotten, weighted by measured forgetting, without losing what was learnt",
    inputs={
        "model": Port(type=ArtifactType.MODEL, doc="The model that has forgotten"),
        "datasets": Port(
            type=ArtifactType.DATASET,
            doc="Earlier data: demonstrations, or prompts to sample on",
            many=True,
            optional=True,
        ),
        "rollouts": Port(
            type=ArtifactType.ROLLOUTS, doc="Recorded responses of the training since", many=True, optional=True
        ),
        "before": Port(type=ArtifactType.METRICS, doc="Evaluation before the forgetting", optional=True),
        "after": Port(type=ArtifactType.METRICS, doc="Evaluation of the input model, same prompts", optional=True),
    },
    outputs={
        "model": Port(type=ArtifactType.MODEL, doc="The model after rehearsal"),
        "dataset": Port(type=ArtifactType.DATASET, doc="The rehearsal set with its card"),
        "metrics": Port(type=ArtifactType.METRICS, doc="Final losses and shares, and a row per logged step"),
        "checkpoints": Port(type=ArtifactType.CHECKPOINTS, doc="Models kept along the way (save_every)", optional=True),
    },
    params=ReplayParams,
    run="components.replay.run:run",
    forks="components.modeling.supervised.forking:misfits",
    backends=frozenset({"sampler", "trainer"}),
    model_sizes=ModelSizes.from_config,
    memory=supervised_memory,
    preloads=MODEL_PRELOADS,
    metrics={
        "loss": "Loss per target token, mean of the last 10 logged steps",
        "num_rehearsed": "Examples in the rehearsal set",
        "num_rejected": "Demonstrations and samples that their verifier did not accept",
        "num_failed": "Verifications that failed; these responses are not used",
        "share_<domain>": "Share of a domain in what is trained on",
        "drop_<domain>": "Measured forgetting: pass@1 before minus after",
    },
    undone={"num_failed": "verifications failed"},
    role=Role.TRAINING,
    alarms=SUPERVISED_ALARMS,
    report=(SUPERVISED_CURVES,),
    verifies=lambda _: ("datasets", "rollouts"),
)
