"""Follower: a rank whose GPUs another rank's engine uses, too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn, Unpack

import torch

from components.modeling.generation.generate import DrawOptions
from components.modeling.generation.sampler import Sampler
from components.modeling.generation.sampling_config import SamplingConfig
from components.modeling.models.policy import Gather, Policy, held


class Follower(Sampler):
    """Takes part when weights are gathered for the engine; `SharedSampler` lets it draw nothing."""

    is_policy = False

    def load_weights(self, policy: Policy | None = None, *, gather: Gather = held) -> None:
        """Gather all weights, layer after layer, as the rank with the engine does."""
        self.policy = policy or self.policy
        for _ in self.policy.named_weights(gather):
            pass

    def sample(
        self,
        prompts: Sequence[Sequence[int]],
        config: SamplingConfig,
        *,
        generator: torch.Generator,
        **options: Unpack[DrawOptions],
    ) -> NoReturn:
        """Refuse: there is no engine here."""
        raise RuntimeError("this rank has no engine: another one draws with its GPUs")

    def rest(self) -> None:
        """Do nothing: the engine is another rank's."""

    def close(self) -> None:
        """Do nothing."""
