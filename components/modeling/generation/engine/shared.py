"""One draw by all ranks together: each samples a run of the prompts, and every rank gets all responses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace

import torch
from torch import Tensor

from components.modeling.generation.generate import Progress, Samples, check_request
from components.modeling.generation.sampler import Drawing, Sampler
from components.modeling.generation.sampling import LogitsProcessor, Step
from components.modeling.generation.sampling_config import SamplingConfig
from components.modeling.models.policy import Policy
from components.modeling.ranks import Ranks

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
        check_request(self.policy, prompts, config, prefixes)  # before the ranks part
        start, end = self._own_run(len(prompts))
        n, own = config.num_samples, None
        uniforms = self.is_policy and not config.greedy
        own_generator = self._generator(generator)
        if uniforms:
            _skip(start * n, config, generator)
        if end > start:
            own = self._inner.sample(
                prompts[start:end],
                config,
                generator=own_generator,
                progress=progress,
                prefixes=None if prefixes is None else prefixes[start * n : end * n],
                processor=None if processor is None else _shifted(processor, start, n),
            )
        if uniforms:
            _skip((len(prompts) - end) * n, config, generator)
        return self._gathered(own, start)

    def begin(self, prompts: Sequence[Sequence[int]], config: SamplingConfig, *, generator: torch.Generator) -> Drawing:
        """Begin to draw on every rank; all ranks must wait for the samples together."""
        if self.is_policy:
            return super().begin(prompts, config, generator=generator)
        check_request(self.policy, prompts, config, None)
        start, end = self._own_run(len(prompts))
        own_generator = self._generator(generator)
        own = self._inner.begin(prompts[start:end], config, generator=own_generator) if end > start else None
        return Drawing(lambda: self._gathered(None if own is None else own.samples(), start))

    def scored(self, prompts: Sequence[Sequence[int]], samples: Samples, *, temperature: float) -> Samples:
        """Score a run of the prompts on each rank; `samples` are of all."""
        start, end = self._own_run(len(prompts))
        own = _run_of(samples, start, end)
        scored = self._inner.scored(prompts[start:end], own, temperature=temperature) if end > start else None
        return self._gathered(scored, start)

    def _own_run(self, num_prompts: int) -> tuple[int, int]:
        """Return where this rank's run of the prompts starts and ends."""
        start, end = (
            num_prompts * border // self._ranks.count for border in (self._ranks.index, self._ranks.index + 1)
        )
        return start, end

    def _generator(self, generator: torch.Generator) -> torch.Generator:
        """Return what this rank draws from; `generator` moves alike on all ranks."""
        if self.is_policy:
            return generator
        seed = int(torch.randint(SEEDS, (), generator=generator))
        return torch.Generator().manual_seed(seed ^ self._ranks.index)

    def _gathered(self, own: Samples | None, start: int) -> Samples:
        """Return the responses of all ranks; `start` is the first prompt of this one's."""
        shifted = None if own is None else replace(own, prompt_index=own.prompt_index + start)
        return _joined([part for part in self._ranks.gather(shifted) if part is not None])

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


def _run_of(samples: Samples, start: int, end: int) -> Samples:
    """Return the rows of a run of the prompts, as if there were no others."""
    rows = slice(start * samples.num_samples, end * samples.num_samples)
    columns = {field.name: getattr(samples, field.name) for field in fields(Samples)}
    own = {name: column[rows] if isinstance(column, Tensor) else column for name, column in columns.items()}
    return Samples(**own | {"prompt_index": own["prompt_index"] - start})


def _joined(parts: Sequence[Samples]) -> Samples:
    """Return the ranks' responses one after another; all are as wide as a response may be."""
    columns = {}
    for field in fields(Samples):
        values = [getattr(part, field.name) for part in parts]
        columns[field.name] = torch.cat(values) if isinstance(values[0], Tensor) else values[0]
    return Samples(**columns)
