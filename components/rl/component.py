"""Declaration of the rl stage: reinforcement learning with verifiable rewards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from components.contract.artifacts import ArtifactType
from components.contract.component import Component, Params, Port
from components.contract.operators import OperatorSpec
from components.modeling.lora import LoraConfig
from components.modeling.training_config import OptimizerConfig
from components.rl.presets import SlotSpecs, bind, check_specs, load_preset, override, preset_path
from components.tasks.modules import verifier_modules


class RLOptimizerConfig(OptimizerConfig):
    """Optimiser and learning-rate schedule, with the defaults of this stage."""

    warmup_steps: int = Field(default=5, ge=0)
    """Updates in which the learning rate rises linearly to its peak."""


class RecordConfig(Params):
    """Which responses are kept in the rollouts output, for people and for rehearsal."""

    browse_every: int = Field(default=10, ge=1)
    """Steps between samples for people; the last step always has some."""
    browse_samples: int = Field(default=16, ge=0)
    """Responses kept at each of these steps, spread evenly from the worst to the best reward."""
    right_samples: int = Field(default=2048, ge=0)
    """Verified-right responses kept for rehearsal: the latest, equal ones once."""


class RLParams(Params):
    """A method, how long and on how much to run it, and overrides of its slots."""

    method: str = "grpo"
    """A preset of components/rl/methods. Alone it is the paper's setting; every slot set beside it is yours."""
    steps: int = Field(default=60, ge=1)
    """Rounds of rollout and update."""
    prompts_per_step: int = Field(default=32, ge=1)
    """Prompts of one step."""
    group_size: int = Field(default=8, ge=1)
    """Responses to each prompt."""
    max_new_tokens: int = Field(default=64, ge=1)
    """Longest response in tokens, its end included; longer ones are cut and counted as truncated."""
    temperature: float = Field(default=1.0, gt=0)
    """Of sampling. The trained policy is the one at this temperature, so ratios begin at 1."""
    optimizer: RLOptimizerConfig = RLOptimizerConfig()
    """Optimiser and learning-rate schedule; its steps are updates, not rounds."""
    minibatches: int = Field(default=1, ge=1)
    """Updates per pass over a step's batch; whole groups go into each."""
    epochs: int = Field(default=1, ge=1)
    """Passes over a step's batch."""
    micro_batch_tokens: int = Field(default=16384, ge=1)
    """Most tokens in one forward pass; bounds memory, not the result."""
    sampler: OperatorSpec | None = None
    """Override of the method's slot: which prompts a step trains on."""
    rollout: OperatorSpec | None = None
    """Override of the method's slot: how responses are drawn."""
    rewards: tuple[OperatorSpec, ...] | None = None
    """Override of the method's slot: what a response is worth; the whole list."""
    guidance: OperatorSpec | None = None
    """Override of the method's slot: help given to groups before they are learned from."""
    filters: tuple[OperatorSpec, ...] | None = None
    """Override of the method's slot: which responses are learned from; the whole list."""
    advantages: tuple[OperatorSpec, ...] | None = None
    """Override of the method's slot: how much better a response was than expected; the whole list."""
    objective: OperatorSpec | None = None
    """Override of the method's slot: the policy-gradient loss per token and its denominator."""
    regularizers: tuple[OperatorSpec, ...] | None = None
    """Override of the method's slot: terms added to the loss; the whole list."""
    reference: OperatorSpec | None = None
    """Override of the method's slot: the policy that the trained one is compared with."""
    schedule: OperatorSpec | None = None
    """Override of the method's slot: what changes from step to step."""
    lora: LoraConfig | None = None
    """Train low-rank adapters instead of all weights; the output model has them merged."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Precision of the weights."""
    start_kl_every: int = Field(default=10, ge=0)
    """Steps between measurements of the divergence from the starting policy; 0 for none."""
    checkpoint_every: int = Field(default=10, ge=0)
    """Steps between partial checkpoints, from which a killed stage resumes; 0 for none."""
    save_every: int = Field(default=20, ge=0)
    """Steps between models kept in the checkpoints output, the last step included; 0 for none."""
    record: RecordConfig = RecordConfig()
    """Which responses the rollouts output keeps."""

    @field_validator("method")
    @classmethod
    def _known_method(cls, value: str) -> str:
        preset_path(value)
        return value

    @field_validator(*SlotSpecs.model_fields)
    @classmethod
    def _known_operators(
        cls, value: OperatorSpec | tuple[OperatorSpec, ...] | None, info: ValidationInfo
    ) -> OperatorSpec | tuple[OperatorSpec, ...] | None:
        check_specs(str(info.field_name), value)
        return value

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        bind(self.slots())
        return self

    def slots(self) -> SlotSpecs:
        """Return the method's slots with this stage's overrides in their place."""
        overrides = {slot: vars(self)[slot] for slot in SlotSpecs.model_fields}
        return override(load_preset(self.method).slots, overrides)


def sources(params: RLParams) -> Iterator[str | Path]:
    """Name the preset, the modules of the operators that it and the overrides choose, and all verifiers.

    Which verifiers judge is known from the prompts only; all join, so that a changed one never leaves an old result.
    """
    yield preset_path(params.method)
    yield from verifier_modules()
    yield from sorted({bound.module for _, bound in bind(params.slots()).places()})


COMPONENT = Component(
    name="rl",
    summary="Reinforcement learning with verifiable rewards: sample, verify, learn, repeat",
    inputs={
        "model": Port(type=ArtifactType.MODEL, doc="The policy to train"),
        "dataset": Port(type=ArtifactType.DATASET, doc="Prompts with their verifiers", many=True),
        "reference": Port(
            type=ArtifactType.MODEL, doc="Frozen policy to stay close to; the input model by default", optional=True
        ),
    },
    outputs={
        "model": Port(type=ArtifactType.MODEL, doc="The policy after the last step"),
        "checkpoints": Port(type=ArtifactType.CHECKPOINTS, doc="The policy every `save_every` steps", optional=True),
        "rollouts": Port(type=ArtifactType.ROLLOUTS, doc="Recorded responses with rewards and outcomes"),
        "metrics": Port(type=ArtifactType.METRICS, doc="Training curves and the pass-rate ledger"),
    },
    params=RLParams,
    run="components.rl.run:run",
    preloads=("torch", "transformers", "components.rl.run"),
    metrics={
        "pass_rate": "share of right responses among verified ones, mean of the last 10 steps",
        "reward_mean": "mean reward, mean of the last 10 steps",
        "entropy": "token entropy of the policy in nats, mean of the last 10 steps",
        "length_mean": "tokens per response, mean of the last 10 steps",
        "signal_share": "share of groups with both outcomes, mean of the last 10 steps",
        "truncated_share": "share of responses cut at the token limit, mean of the last 10 steps",
        "num_samples": "responses drawn in all",
        "num_failed": "failed verifications in all",
    },
    sources=sources,
)
