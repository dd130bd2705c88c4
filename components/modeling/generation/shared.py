"""One draw by all ranks together: each samples a run of the prompts, and every rank gets all responses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace

import torch
from torch import Tensor

from components.modeling.generate import Progress, Samples
from components.modeling.generation.sampler import Sampler
from components.modeling.policy import Policy
from components.modeling.ranks import Ranks
from components.modeling.sampling import LogitsProcessor, Step
from components.modeling.sampling_config import SamplingConfig

SEEDS = 2**62


class SharedSampler(Sampler):
    """A sampler of each rank behind one; all ranks call everything, with generators in the same state.

    The native sampler draws what one process would have drawn: its random numbers belong to rows. An engine draws from
    a seed of each rank's own.
    """

    def __init__(self, inner: Sampler, ranks: Ranks) -> None:
        super().__init__(inner.policy)
        self._inner, self._ranks = inner, ranks

    @property
    def is_policy(self) -> bool:  # type: ignore[override]
        """Return whether the sampler behind it computes with the policy's own weights."""
        return self._inner.is_policy

    def load_weights(self, policy: Policy | None = None) -> None:
        """Give every rank's sampler the weights."""
        self.policy = policy or self.policy
        self._inner.load_weights(policy)

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
        """Draw `num_samples` responses to every prompt."""
        rank, world, n = self._ranks.index, self._ranks.count, config.num_samples
        start, end = (len(prompts) * border // world for border in (rank, rank + 1))
        own = None
        uniforms = self.is_policy and not config.greedy
        seed = None if self.is_policy else int(torch.randint(SEEDS, (), generator=generator))
        if uniforms:
            _skip(start * n, config, generator)
        if end > start:
            own = self._inner.sample(
                prompts[start:end],
                config,
                generator=generator if seed is None else torch.Generator().manual_seed(seed ^ rank),
                progress=progress,
                prefixes=None if prefixes is None else prefixes[start * n : end * n],
                processor=None if processor is None else _shifted(processor, start, n),
            )
            own = replace(own, prompt_index=own.prompt_index + start)
        if uniforms:
            _skip((len(prompts) - end) * n, config, generator)
        return _joined([part for part in self._ranks.gather(own) if part is not None])

    def rest(self) -> None:
        """Give memory back until the next weights or samples are wanted."""
        self._inner.rest()

    def close(self) -> None:
        """End whatever draws."""
        self._inner.close()


def _skip(rows: int, config: SamplingConfig, generator: torch.Generator) -> None:
    """Draw and forget the random numbers of other ranks' rows, as `generate` draws them."""
    torch.rand(rows, config.max_new_tokens, dtype=torch.float64, generator=generator)


def _shifted(processor: LogitsProcessor, first_prompt: int, num_samples: int) -> LogitsProcessor:
    """Return the processor for a run of the prompts: it is told the rows and prompts that they are among all."""

    def process(logits: Tensor, step: Step) -> Tensor:
        rows, prompts = step.rows + first_prompt * num_samples, step.prompt_index + first_prompt
        return processor(logits, Step(step.position, rows, prompts))

    return process


def _joined(parts: Sequence[Samples]) -> Samples:
    """Return the ranks' responses one after another; all are as wide as a response may be."""
    columns = {}
    for field in fields(Samples):
        values = [getattr(part, field.name) for part in parts]
        columns[field.name] = torch.cat(values) if isinstance(values[0], Tensor) else values[0]
    return Samples(**columns)
