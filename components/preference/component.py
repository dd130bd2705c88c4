"""Declaration of the preference stage."""

from __future__ import annotations

from components.contract.artifacts import ArtifactType
from components.contract.component import Component, Port
from components.contract.display import Curves, Role
from components.contract.further import REFERENCE
from components.modeling.models.model_sizes import ModelSizes
from components.modeling.models.preloads import MODEL_PRELOADS
from components.preference.alarms import PREFERENCE_ALARMS
from components.preference.memory import reference_needs, training_memory
from components.preference.params import PreferenceParams

CURVES = Curves(
    title="Training",
    columns={
        "loss": "loss",
        "accuracy": "comparisons ranked right",
        "margin": "margin of the better response",
        "chosen_nll": "nats a token, chosen",
        "rejected_nll": "nats a token, rejected",
        "grad_norm": "gradient norm",
        "learning_rate": "learning rate",
    },
)


def asks(params: PreferenceParams) -> dict[str, list[str]]:
    """Return the port of the reference for a loss that reads one; it is used only if connected."""
    return {REFERENCE: []} if params.comparing.reference else {}


COMPONENT = Component(
    name="preference",
    summary="Preference optimisation: DPO and its kin, on which of several responses is better",
    inputs={
        "model": Port(type=ArtifactType.MODEL, doc="The model to start from"),
        "dataset": Port(
            type=ArtifactType.DATASET,
            doc="Preferences (prompt, chosen, rejected), or responses with a label or score, as the loss compares them",
            many=True,
        ),
        "validation": Port(
            type=ArtifactType.DATASET, doc="Comparisons to measure the accuracy on", many=True, optional=True
        ),
        REFERENCE: Port(
            type=ArtifactType.MODEL,
            doc="The model that training is tied to, with the model's tokenizer; the start if left out",
            optional=True,
            further=True,
        ),
    },
    outputs={
        "model": Port(type=ArtifactType.MODEL, doc="The trained model"),
        "metrics": Port(type=ArtifactType.METRICS, doc="Final losses and accuracies, and a row per logged step"),
        "checkpoints": Port(type=ArtifactType.CHECKPOINTS, doc="Models kept along the way (save_every)", optional=True),
    },
    params=PreferenceParams,
    run="components.preference.run:run",
    forks="components.preference.forking:misfits",
    backends=frozenset({"trainer"}),
    model_sizes=ModelSizes.from_config,
    memory=training_memory,
    further_memory=reference_needs,
    asks=asks,
    preloads=MODEL_PRELOADS,
    metrics={
        "loss": "Loss of a comparison, mean of the last 10 logged steps",
        "accuracy": "Share of comparisons ranked right, mean of the last 10 logged steps, before each update",
        "margin": "How far the better response stands above the other, as the loss compares them; of the same steps",
        "validation_accuracy": "Share of the validation input's comparisons ranked right",
        "validation_margin": "Margin on the validation input",
        "validation_loss": "Loss of a comparison on the validation input",
        "chosen_longer": "Share of pairs whose chosen response has more tokens, equal ones half: the bias of length",
        "epochs": "Passes over the examples",
        "num_examples": "Examples that were drawn from",
        "padding_avoided": "Share of the tokens of rectangular batches that sharing prompts and packing saved",
        "num_targets": "Tokens of responses trained on, repeats included",
        "num_bad": "Rows left out because of missing columns, equal sides, unknown labels, or a second score of one "
        "response (bad_rows: drop)",
        "num_unranked": "Lists left out because no two of their responses differ in score; only where there are any",
        "num_weightless": "Examples left out because their weight is 0; only where there are any",
        "num_overlong": "Examples left out because they exceed max_tokens or the model's positions",
        "num_cut": "Examples whose prompt is cut on the left for the same reason; only where there are any",
        "num_equal": "Examples left out because their responses are the same tokens; only where there are any",
        "num_overlong_validation": "Held-out examples that were not measured because they exceed max_tokens; only "
        "where there are any",
    },
    undone={"num_bad": "bad rows left out"},
    role=Role.TRAINING,
    alarms=PREFERENCE_ALARMS,
    report=(CURVES,),
)
