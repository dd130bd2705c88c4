"""Toy components: the ports of the real ones, parameters of every kind, and runs that take no time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from components.contract.alarms import Alarm, Level
from components.contract.artifacts import ArtifactType
from components.contract.component import Component, Port
from components.contract.forking import Held
from components.contract.operators import OperatorSpec
from components.contract.params import Params
from components.contract.sharding import Sharding
from components.contract.slots import Slot

DATASET, MODEL, METRICS = ArtifactType.DATASET, ArtifactType.MODEL, ArtifactType.METRICS


SLOTS = {
    name: Slot(name=name, package=f"tests.pipelines.toy_operators.{name}s", summary=f"A toy {name}")
    for name in ("source", "verifier", "objective")
}
SOURCE = SLOTS["source"]


class OptimizerConfig(Params):
    """Nested settings."""

    name: Literal["adamw", "muon"] = "adamw"
    """Which optimiser."""
    peak_learning_rate: float = Field(default=1e-3, gt=0)
    """Highest learning rate."""


class CurateParams(Params):
    """Parameters of the toy curate."""

    sources: Annotated[tuple[OperatorSpec, ...], SOURCE] = Field(default=(OperatorSpec(name="counting"),), min_length=1)
    """Where rows come from."""
    keep_pass_rate: tuple[float, float] | None = None
    """Range of pass rates that are kept."""
    rows: int = Field(default=4, ge=1)
    """How many rows to write."""


class PretrainParams(Params):
    """Parameters of the toy pretrain."""

    layers: int = Field(ge=1)
    """Number of layers; there is no default."""
    tokenizer: str = "digits"
    """Which tokenizer."""


class TrainParams(Params):
    """Parameters of the toy sft and rl."""

    steps: int = Field(default=60, ge=1, le=10_000)
    """Optimiser steps."""
    method: Literal["grpo", "dapo", "rloo"] = "grpo"
    """Which method."""
    optimizer: OptimizerConfig = OptimizerConfig()
    """The optimiser."""
    learning_rate: float | Literal["auto"] = "auto"
    """A number or "auto"."""
    notes: dict[str, str] = Field(default_factory=dict)
    """Free text."""
    warmup_steps: int = Field(default=0, ge=0)
    """Steps of warm-up."""
    shuffle: bool = True
    """Whether to shuffle."""

    @model_validator(mode="after")
    def _warmup_fits(self) -> TrainParams:
        if self.warmup_steps > self.steps:
            raise ValueError(f"warmup_steps ({self.warmup_steps}) must not exceed steps ({self.steps})")
        return self


class ShareConfig(Params):
    """A source that is looked up by the component itself, as curate does."""

    origin: OperatorSpec
    """Where rows come from; the field does not say the slot."""
    weight: float = 1.0
    """Its share."""

    @model_validator(mode="after")
    def _known(self) -> ShareConfig:
        self.origin.resolve(SOURCE)
        return self


class EvaluateParams(Params):
    """Parameters of the toy evaluate."""

    shares: tuple[ShareConfig, ...] = ()
    """Where prompts come from."""
    samples: int = Field(default=8, ge=1)
    """Samples per prompt."""


class DivideParams(Params):
    """Parameters of the toy divide."""

    rows: int = Field(default=4, ge=1)
    """How many rows to write."""
    title: str = ""
    """What only the stage that joins reads."""
    shards: int | None = Field(default=None, ge=1, le=200)
    """How many shards."""
    shard: dict[str, int] | None = None
    """Which one this is."""


def run(context: Any) -> None:
    """Write one small file into every output, a function of parameters, seed and inputs."""
    ports = COMPONENT_BY_NAME[context.job.component].formed(context.params)
    given = {port: [item.digest for item in context.inputs(port)] for port in ports.inputs}
    row = {"params": context.params.model_dump(mode="json"), "seed": context.seed, "inputs": given}
    for port in ports.outputs:
        (context.output(port) / "rows.jsonl").write_text(json.dumps({**row, "port": port}, sort_keys=True) + "\n")
    context.headline(**dict.fromkeys(ports.metrics, 0.5))


def misfits(before: TrainParams, now: TrainParams, held: Held) -> Iterator[str]:
    """Yield why a checkpoint of a toy training does not fit."""
    if now.steps <= held.step:
        yield f"steps {now.steps} end before it"


Ports = dict[str, Port]


def _component(name: str, params: type[Params], inputs: Ports, outputs: Ports, **more: Any) -> Component:
    return Component(
        name=name,
        summary=f"A toy {name}",
        params=params,
        inputs=inputs,
        outputs=outputs,
        run="tests.pipelines.toys:run",
        image="cpu",
        **more,
    )


_MODEL = Port(type=MODEL, doc="a model")
_ROWS = Port(type=DATASET, doc="rows")

pretrain = _component("pretrain", PretrainParams, {}, {"model": _MODEL})
curate = _component(
    "curate",
    CurateParams,
    {"policy": Port(type=MODEL, doc="whose pass rate is measured", optional=True)},
    {"dataset": _ROWS, "heldout": _ROWS},
    metrics={"num_rows": "rows kept"},
)
sft = _component(
    "sft",
    TrainParams,
    {"model": _MODEL, "dataset": Port(type=DATASET, doc="rows", many=True)},
    {"model": _MODEL, "metrics": Port(type=METRICS, doc="curves")},
    metrics={"loss": "final loss"},
    forks="tests.pipelines.toys:misfits",
)
rl = _component(
    "rl",
    TrainParams,
    {"model": _MODEL, "dataset": _ROWS},
    {
        "model": _MODEL,
        "checkpoints": Port(type=ArtifactType.CHECKPOINTS, doc="models"),
        "rollouts": Port(type=ArtifactType.ROLLOUTS, doc="responses"),
    },
    metrics={"pass_rate": "last pass rate", "kl": "divergence"},
    forks="tests.pipelines.toys:misfits",
    alarms=(
        Alarm(
            name="nothing_right",
            rule=Level(column="pass_rate", below=True),
            bound=0.0,
            rows=5,
            says="no response is right",
            helps="lower {optimizer.peak_learning_rate}",
            reason="five steps without a reward teach nothing",
        ),
    ),
)
evaluate = _component(
    "evaluate",
    EvaluateParams,
    {
        "model": _MODEL,
        "dataset": _ROWS,
        "against": Port(type=MODEL, doc="other models", optional=True, many=True),
    },
    {"metrics": Port(type=METRICS, doc="scores")},
    metrics={"pass_at_<k>": "unbiased pass@k"},
)
collect = _component(
    "collect",
    EvaluateParams,
    {"metrics": Port(type=METRICS, doc="all scores", many=True)},
    {"report": Port(type=ArtifactType.REPORT, doc="a table")},
)
divide = _component(
    "divide",
    DivideParams,
    {
        "dataset": Port(type=DATASET, doc="rows", optional=True),
        "policy": Port(type=MODEL, doc="what only the stage that joins takes", optional=True),
        "shards": Port(type=ArtifactType.PARTS, doc="what shards made", optional=True, many=True),
    },
    {"dataset": _ROWS},
    metrics={"num_rows": "rows kept"},
    sharding=Sharding(
        count=lambda params: params.shards, port="shards", output="parts", inputs=("dataset",), joins=("title",)
    ),
    shard_outputs={"parts": Port(type=ArtifactType.PARTS, doc="what one shard made")},
)

COMPONENT_BY_NAME = {c.name: c for c in (pretrain, curate, sft, rl, evaluate, collect, divide)}
COMPONENTS = {name: f"tests.pipelines.toys:{name}" for name in COMPONENT_BY_NAME}
COMPONENTS["sweep"] = "components.sweep.component:COMPONENT"
