"""Sampler: the one interface behind which responses are drawn, and the native one.

Shapes: S samples (rows), T response tokens.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import ClassVar, Self

import torch

from components.modeling.generation.generate import Progress, Samples, generate
from components.modeling.generation.sampling import LogitsProcessor
from components.modeling.generation.sampling_config import SamplingConfig
from components.modeling.generation.scoring import scored
from components.modeling.models.policy import Policy


@dataclass
class Drawing:
    """A draw that may still be under way."""

    collect: Callable[[], Samples]
    """Waits for the samples; they hold what drew them, not what the policy says of them."""
    _found: Samples | None = field(default=None, init=False)

    def samples(self) -> Samples:
        """Wait for the samples, the first time."""
        if self._found is None:
            self._found = self.collect()
        return self._found


class Sampler(ABC):
    """Draws responses from the weights that it was last given; a context manager that closes itself."""

    is_policy: ClassVar[bool]
    """Whether it computes with the policy's own weights, so that they are never stale and log-probabilities agree."""

    def __init__(self, policy: Policy) -> None:
        """The first weights are those of `policy`."""
        self.policy = policy

    @abstractmethod
    def load_weights(self, policy: Policy | None = None) -> None:
        """Draw from `policy` as it is now, by default the one drawn from so far."""

    @abstractmethod
    def sample(
        self,
        prompts: Sequence[Sequence[int]],
        config: SamplingConfig,
        *,
        generator: torch.Generator,
        progress: Progress | None = None,
        prefixes: Sequence[Sequence[int]] | None = None,
        processor: LogitsProcessor | None = None,
    ) -> Samples:
        """Draw `num_samples` responses to every prompt; the same generator state and weights give the same ones.

        Arguments as of `generate`. Raises InputError for what does not fit the model, or what an engine cannot do.
        """

    def begin(self, prompts: Sequence[Sequence[int]], config: SamplingConfig, *, generator: torch.Generator) -> Drawing:
        """Begin to draw from the weights of now. An engine goes on while this process does other things."""
        found = self.sample(prompts, config, generator=generator)
        return Drawing(lambda: found)

    def scored(self, prompts: Sequence[Sequence[int]], samples: Samples, *, temperature: float) -> Samples:
        """Return samples with what the policy says of them now; see `scoring.scored`."""
        return scored(self.policy, prompts, samples, temperature=temperature)

    @abstractmethod
    def rest(self) -> None:
        """Give memory back until the next weights or samples are wanted."""

    @abstractmethod
    def close(self) -> None:
        """End whatever draws; the sampler is of no use afterwards."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class NativeSampler(Sampler):
    """Generation in this process, from the policy itself."""

    is_policy = True

    def load_weights(self, policy: Policy | None = None) -> None:
        """Draw from `policy`; nothing is copied."""
        self.policy = policy or self.policy

    def sample(
        self,
        prompts: Sequence[Sequence[int]],
        config: SamplingConfig,
        *,
        generator: torch.Generator,
        progress: Progress | None = None,
        prefixes: Sequence[Sequence[int]] | None = None,
        processor: LogitsProcessor | None = None,
    ) -> Samples:
        """Draw by `generate`."""
        return generate(
            self.policy,
            prompts,
            config,
            generator=generator,
            progress=progress,
            prefixes=prefixes,
            processor=processor,
        )

    def rest(self) -> None:
        """Hold nothing between samples."""

    def close(self) -> None:
        """Have nothing to end."""
