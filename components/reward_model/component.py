"""Declaration of the reward_model stage."""

from __future__ import annotations

from components.contract.alarms import Alarm, Growth
from components.contract.artifacts import ArtifactType
from components.contract.component import Component, Port
from components.contract.display import Curves, Role, Views
from components.contract.heads import SCORES
from components.modeling.models.model_sizes import ModelSizes
from components.modeling.models.preloads import MODEL_PRELOADS
from components.modeling.supervised.alarms import NOT_FINITE
from components.reward_model.config import ScorerLossConfig
from components.reward_model.memory import memory
from components.reward_model.params import RewardModelParams

OF_KINDS = {
    "pair_accuracy": ("preferences", "labelled"),
    "margin_mean": ("preferences", "labelled"),
    "accuracy": ("labelled", "stepwise"),
    "squared_error": ("labelled", "stepwise"),
}
"""Metrics that only some kinds of rows have."""
OF_CHANCES = ("accuracy", "calibration_error", "brier")
"""Metrics of scores that are chances."""


def unmeasured(params: RewardModelParams, metric: str) -> str | None:
    """Return why a metric is not measured: rows of the loss's kind do not have it, or its scores are no chances."""
    config, name = params.scorer_loss.resolve().config, params.scorer_loss.name
    if not isinstance(config, ScorerLossConfig):
        return None
    kind = "labelled" if config.layout().over == "sum" else config.rows  # a sum of steps has the label of its last one
    of = ("preferences",) if metric.startswith("pair_accuracy_") else OF_KINDS.get(metric, (kind,))
    if kind not in of:
        return f"scorer_loss {name} reads {config.rows}, and {metric} is of {' or '.join(of)}"
    if metric in OF_CHANCES and not config.chances:
        return f"scores of this scorer_loss {name} are no chances, which {metric} is about"
    return None


COMPONENT = Component(
    name="reward_model",
    summary="Train a reward model on pairs, labelled responses or steps; any stage can ask it as a scorer",
    inputs={
        "model": Port(
            type=ArtifactType.MODEL, doc="The language model to start from; its output is replaced by a head"
        ),
        "dataset": Port(
            type=ArtifactType.DATASET, doc="Preferences, labelled responses, or responses in steps", many=True
        ),
        "validation": Port(
            type=ArtifactType.DATASET, doc="Rows of the same kind to measure on", many=True, optional=True
        ),
    },
    outputs={
        "model": Port(type=ArtifactType.MODEL, doc="The reward model, as a classifier of transformers", heads=SCORES),
        "metrics": Port(type=ArtifactType.METRICS, doc="Measures with intervals, and a row per logged step"),
        "checkpoints": Port(
            type=ArtifactType.CHECKPOINTS, doc="Models kept along the way (save_every)", optional=True, heads=SCORES
        ),
    },
    params=RewardModelParams,
    run="components.reward_model.run:run",
    forks="components.reward_model.forking:misfits",
    backends=frozenset({"trainer"}),
    model_sizes=ModelSizes.from_config,
    memory=memory,
    preloads=MODEL_PRELOADS,
    unmeasured=unmeasured,
    metrics={
        "pair_accuracy": "Share of pairs whose better response has the higher score, ties half; held-out rows",
        "pair_accuracy_<domain>": "The same on one domain",
        "auroc": "Chance that a good response, or step, has a higher score than a bad one; held-out rows",
        "margin_mean": "Mean difference of the scores of the better and the worse response; held-out rows",
        "calibration_error": "Expected calibration error of the chances that scores mean, where they do; held-out rows",
        "brier": "Mean squared distance of these chances from what is true",
        "accuracy": "Share of responses, or steps, on the right side of one half",
        "squared_error": "Mean squared distance of scores from graded labels",
        "reward_mean": "Mean score of the held-out responses or steps",
        "reward_std": "Standard deviation of these scores",
        "num_measured": "Rows that were measured",
        "loss": "Training loss, mean of the last 10 logged steps",
        "epochs": "Passes over the rows",
        "num_examples": "Rows that were drawn from",
        "num_targets": "Scores that were fitted, repeats included",
        "padding_avoided": "Share of padding that batches would have had as rectangles",
        "num_weightless": "Rows left out because they weigh nothing beside the heaviest; only where there are any",
        "num_overlong": "Rows left out because a text of theirs exceeds max_tokens or the model's positions",
        "num_cut": "Rows whose prompt is cut on the left for the same reason; only where there are any",
        "num_equal": "Pairs left out because both sides are the same tokens; only where there are any",
        "num_overlong_validation": "Held-out rows that are not measured, for the same reason",
    },
    role=Role.TRAINING,
    alarms=(
        NOT_FINITE,
        Alarm(
            name="loss_exploded",
            rule=Growth(column="loss"),
            bound=2.0,
            rows=5,
            says="the loss rose to {value}, from {best}, and stays there",
            helps="lower {optimizer.peak_learning_rate}, lengthen {optimizer.warmup_steps}, or lower "
            "{optimizer.clip_norm}",
            reason="even guessing costs 0.69 of a pair: two above the best is sure of what is wrong",
        ),
    ),
    report=(
        Curves(
            title="Training",
            columns={
                "loss": "loss",
                "accuracy": "pairs in the right order, batch",
                "margin_mean": "mean margin, batch",
                "reward_mean": "mean reward, batch",
                "grad_norm": "gradient norm",
                "learning_rate": "learning rate",
            },
        ),
        Views(title="Reward models", file="views.json"),
    ),
)
