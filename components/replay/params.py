"""Parameters of the replay stage."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from components.contract.params import Params
from components.modeling.generation.sampling_config import SamplingConfig
from components.modeling.models.lora import LoraConfig
from components.modeling.training.training_config import OptimizerConfig, SupervisedConfig

Source = Literal["own", "rollouts", "gold"]
"""own: fresh verified samples of the model itself; rollouts: recorded ones; gold: verified demonstrations."""


class OwnSamples(Params):
    """Rejection sampling from the trained model: its own right responses on prompts it has seen."""

    num_samples: int = Field(default=4, ge=0)
    """Responses per prompt; 0 draws none, and stored rollouts are used instead."""
    num_prompts: int = Field(default=512, ge=1)
    """Maximum number of prompts to sample per domain."""
    max_new_tokens: int = Field(default=64, ge=1)
    """Longest response in tokens; responses cut there are not used."""
    temperature: float = Field(default=1.0, gt=0)
    """Of sampling."""
    max_batch_tokens: int = Field(default=131072, ge=1)
    """Bound on the tokens of one generation batch."""

    def sampling(self) -> SamplingConfig:
        """Return the sampler's settings."""
        return SamplingConfig(
            num_samples=self.num_samples,
            max_new_tokens=self.max_new_tokens,
            temperature=self.temperature,
            max_batch_tokens=self.max_batch_tokens,
        )


class ReplayOptimizer(OptimizerConfig):
    """Optimiser and learning-rate schedule, with the defaults of this stage."""

    name: Literal["adamw", "muon"] = "muon"
    """adamw for all parameters, or muon for the matrices inside the network and adamw for the rest."""
    peak_learning_rate: float = Field(default=1e-3, gt=0)
    """Highest learning rate, reached after warm-up."""


class ReplayParams(SupervisedConfig):
    """What to rehearse, and how to train on it."""

    num_examples: int = Field(default=2048, ge=1)
    """Maximum examples in the rehearsal set."""
    weighting: Literal["measured", "uniform"] = "measured"
    """Shares of domains: by measured forgetting if inputs before and after are connected, or equal.
    A mixture, if given, overrides both."""
    keep_share: float = Field(default=0.5, ge=0, le=1)
    """Total share of the domains that were not forgotten, above all the one just learnt, so that it is kept."""
    sources: dict[str, tuple[Source, ...]] = Field(default_factory=dict)
    """Where a domain's examples come from: the first of these that has any. Domains left out: gold, own,
    rollouts for forgotten ones and own, rollouts, gold for the others."""
    own: OwnSamples = OwnSamples()
    """Rejection sampling from the input model."""
    max_per_prompt: int = Field(default=4, ge=1)
    """Maximum examples per prompt, so that easy prompts do not crowd out hard ones."""
    bootstrap_samples: int = Field(default=2000, ge=100, le=100_000)
    """Resamples for the interval of forgetting."""
    confidence: float = Field(default=0.95, gt=0.5, lt=1)
    """Coverage of that interval; a domain counts as forgotten if it lies above 0."""
    steps: int | None = Field(default=30, ge=1)
    """Optimiser steps; set it to null to give epochs instead."""
    optimizer: ReplayOptimizer = ReplayOptimizer()
    """Optimiser and learning-rate schedule."""
    learn: Literal["last", "all"] = "all"
    """Which of the policy's turns the loss covers in conversations: the last one, or all."""
    lora: LoraConfig | None = None
    """Train low-rank adapters instead of all weights; the output model has them merged."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Precision of the weights while they are trained."""
    keep_special_tokens: tuple[str, ...] = ()
    """Special tokens of the tokenizer that are text of responses, such as "[THINK]" of a reasoning model. Others are
    left out of what is verified and kept, unless the prompt or its verifier's data names them."""
