"""Sampler: the interface for drawing responses, and its native implementation.

Shapes: S samples (rows), T response tokens.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import ClassVar, Self, Unpack

import torch

from components.modeling.generation.constraint import Constraint
from components.modeling.generation.generate import DrawOptions, Samples, generate
from components.modeling.generation.sampling_config import SamplingConfig
from components.modeling.generation.scoring import scored
from components.modeling.models.policy import Gather, Policy, held


@dataclass
class Drawing:
    """A draw that may still be in progress."""

    collect: Callable[[], Samples]
    """Waits for the samples; they have the engine's log-probabilities, not yet the policy's."""
    _found: Samples | None = field(default=None, init=False)

    def samples(self) -> Samples:
        """Return the samples; the first call waits for them."""
        if self._found is None:
            self._found = self.collect()
        return self._found


class Sampler(ABC):
    """Draws responses from the weights it last loaded; a context manager that closes itself."""

    is_policy: ClassVar[bool]
    """Whether it runs the policy itself, so that weights are never stale and log-probabilities agree."""

    def __init__(self, policy: Policy) -> None:
        """The first weights are those of `policy`."""
        self.policy = policy

    @abstractmethod
    def load_weights(self, policy: Policy | None = None, *, gather: Gather = held) -> None:
        """Draw from the current weights of `policy`, by default of the present one.

        `gather` makes the weights of a layer whole where a trainer has cut them up (`Trainer.gather`).
        """

    def timings(self) -> dict[str, float]:
        """Return how long new weights took to arrive, and by which way, for people; empty if they are here anyway."""
        return {}

    @abstractmethod
    def sample(
        self,
        prompts: Sequence[Sequence[int]],
        config: SamplingConfig,
        *,
        generator: torch.Generator,
        **options: Unpack[DrawOptions],
    ) -> Samples:
        """Draw `num_samples` responses to every prompt; the same generator state and weights give the same ones.

        `options` are those of `generate`. Raises InputError for what does not fit the model, or what an engine cannot
        do.
        """

    @property
    def rows_ahead(self) -> int:
        """Responses that are worth beginning beyond those waited for; 0 where all is drawn at once anyway."""
        return 0

    def begin(
        self,
        prompts: Sequence[Sequence[int]],
        config: SamplingConfig,
        *,
        generator: torch.Generator,
        prefixes: Sequence[Sequence[int]] | None = None,
        constraint: Constraint | None = None,
        steady: bool = False,
    ) -> Drawing:
        """Start to draw from the current weights. An engine draws in the background, and takes several draws in turn.

        `steady`: the policy keeps these weights until the samples are there, so that another engine may draw them.
        """
        found = self.sample(prompts, config, generator=generator, prefixes=prefixes, processor=constraint)
        return Drawing(lambda: found)

    def scored(self, prompts: Sequence[Sequence[int]], samples: Samples, *, temperature: float) -> Samples:
        """Return samples scored by the current policy; see `scoring.scored`."""
        return scored(self.policy, prompts, samples, temperature=temperature)

    def with_policy_logprobs(
        self, prompts: Sequence[Sequence[int]], samples: Samples, *, temperature: float
    ) -> Samples:
        """Return samples with the log-probabilities that training begins from, as `policy_logprobs`.

        What the policy drew itself in float32 has them already. In bfloat16 decoding token by token rounds otherwise
        than a pass over whole rows, so that ratios would begin up to 3 % away from 1: such samples are scored.
        """
        if samples.policy_logprobs is not None or not self.policy.low_precision:
            return samples
        return self.scored(prompts, samples, temperature=temperature)

    @abstractmethod
    def rest(self) -> None:
        """Release memory until the next load or draw."""

    @abstractmethod
    def close(self) -> None:
        """End the engine, if any; the sampler cannot be used afterwards."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class NativeSampler(Sampler):
    """Generation in this process, from the policy itself."""

    is_policy = True

    def load_weights(self, policy: Policy | None = None, *, gather: Gather = held) -> None:
        """Draw from `policy`; nothing is copied."""
        self.policy = policy or self.policy

    def sample(
        self,
        prompts: Sequence[Sequence[int]],
        config: SamplingConfig,
        *,
        generator: torch.Generator,
        **options: Unpack[DrawOptions],
    ) -> Samples:
        """Draw by `generate`."""
        return generate(self.policy, prompts, config, generator=generator, **options)

    def rest(self) -> None:
        """Do nothing: no memory is held between draws."""

    def close(self) -> None:
        """Do nothing: there is no engine to end."""
