"""One draw by all ranks together: each samples a contiguous slice of the prompts and gets all responses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Unpack

import torch
from torch import Tensor

from components.modeling.generation.constraint import Constraint
from components.modeling.generation.engine.languages import constraint_of
from components.modeling.generation.equal_passes import equal_passes
from components.modeling.generation.generate import DrawOptions, Samples, check_request
from components.modeling.generation.sampler import Drawing, Sampler
from components.modeling.generation.sampling import LogitsProcessor, Step
from components.modeling.generation.sampling_config import SamplingConfig
from components.modeling.models.policy import Gather, Policy, held
from components.modeling.ranks import Ranks

SEEDS = 2**62


class SharedSampler(Sampler):
    """One interface to the samplers of all ranks; all ranks call every method, with generators in the same state.

    The native sampler draws what one process would have drawn: its random numbers belong to rows. Engines get a
    different seed on each rank. Data ranks divide the policy's own passes, and all processes what engines draw.
    """

    def __init__(self, inner: Sampler, ranks: Ranks, *, per_engine: int = 1) -> None:
        """With `per_engine` ranks to an engine, the first of them has it as `inner`, and the others are followers."""
        super().__init__(inner.policy)
        self._inner, self._ranks, self._per_engine = inner, ranks, per_engine

    @property
    def is_policy(self) -> bool:  # type: ignore[override]
        """Return whether the inner sampler runs the policy itself."""
        return self._inner.is_policy

    def load_weights(self, policy: Policy | None = None, *, gather: Gather = held) -> None:
        """Give every rank's sampler the weights."""
        self.policy = policy or self.policy
        self._make_room()
        self._inner.load_weights(policy, gather=gather)

    def timings(self) -> dict[str, float]:
        """Return those of this rank's sampler."""
        return self._inner.timings()

    def sample(
        self,
        prompts: Sequence[Sequence[int]],
        config: SamplingConfig,
        *,
        generator: torch.Generator,
        **options: Unpack[DrawOptions],
    ) -> Samples:
        """Draw `num_samples` responses to every prompt."""
        prefixes, processor = options.get("prefixes"), options.get("processor")
        check_request(self.policy, prompts, config, prefixes)  # before the ranks part
        if self._per_engine > 1 or (not self.is_policy and self._ranks.count < self._ranks.all.count):
            return self._drawn_then_scored(prompts, config, generator, options)
        start, end = _own_run(self._ranks, len(prompts))
        n, own = config.num_samples, None
        uniforms = self.is_policy and not config.greedy
        own_generator = self._generator(generator)
        if uniforms:
            _skip(start * n, config, generator)
        with equal_passes(self.policy):
            if end > start:
                own = self._inner.sample(
                    prompts[start:end],
                    config,
                    generator=own_generator,
                    progress=options.get("progress"),
                    prefixes=None if prefixes is None else prefixes[start * n : end * n],
                    processor=None if processor is None else self._own_part(processor, start, end, n),
                )
        if uniforms:
            _skip((len(prompts) - end) * n, config, generator)
        return _gathered(self._ranks, own, start)

    @property
    def rows_ahead(self) -> int:
        """Return those of all ranks; 0 where not every rank has an engine that knows."""
        return self._ranks.all.count * self._inner.rows_ahead if self._per_engine == 1 else 0

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
        """Start to draw on every rank that has an engine; all ranks must wait for the samples together."""
        if self.is_policy:
            return super().begin(
                prompts, config, generator=generator, prefixes=prefixes, constraint=constraint, steady=steady
            )
        check_request(self.policy, prompts, config, prefixes)
        start, end = _own_run(self._ranks.all, len(prompts), self._per_engine)
        own_generator, n = self._generator(generator), config.num_samples
        self._make_room()
        own = None
        if end > start:
            forced = None if prefixes is None else prefixes[start * n : end * n]
            own = self._inner.begin(
                prompts[start:end],
                config,
                generator=own_generator,
                prefixes=forced,
                constraint=None if constraint is None else constraint.of_prompts(start, end),
                steady=steady,
            )
        return Drawing(lambda: _gathered(self._ranks.all, None if own is None else own.samples(), start))

    def _drawn_then_scored(
        self,
        prompts: Sequence[Sequence[int]],
        config: SamplingConfig,
        generator: torch.Generator,
        options: DrawOptions,
    ) -> Samples:
        """Draw on the ranks that have an engine, and score on all of them."""
        constraint, prefixes = constraint_of(options.get("processor")), options.get("prefixes")
        drawn = self.begin(prompts, config, generator=generator, prefixes=prefixes, constraint=constraint).samples()
        if (progress := options.get("progress")) is not None:
            progress(len(drawn.lengths), len(drawn.lengths))
        return self.scored(prompts, drawn, temperature=config.temperature)

    def _own_part(self, processor: LogitsProcessor, start: int, end: int, num_samples: int) -> LogitsProcessor:
        """Return a processor for the prompts of this rank; of a constraint, an engine gets their languages only."""
        if not self.is_policy and isinstance(processor, Constraint):
            return processor.of_prompts(start, end)
        return _shifted(processor, start, num_samples)

    def _make_room(self) -> None:
        """Release this rank's cached GPU memory, on all ranks before any engine takes its share of several GPUs."""
        if self._per_engine > 1:
            if torch.cuda.is_initialized():
                torch.cuda.empty_cache()
            self._ranks.all.gather(None)

    def scored(self, prompts: Sequence[Sequence[int]], samples: Samples, *, temperature: float) -> Samples:
        """Score a slice of the prompts on each rank; `samples` are those of all prompts."""
        start, end = _own_run(self._ranks, len(prompts))
        own = _run_of(samples, start, end)
        with equal_passes(self.policy):
            scored = self._inner.scored(prompts[start:end], own, temperature=temperature) if end > start else None
        return _gathered(self._ranks, scored, start)

    def _generator(self, generator: torch.Generator) -> torch.Generator:
        """Return this rank's generator; `generator` advances equally on all ranks."""
        if self.is_policy:
            return generator
        seed = int(torch.randint(SEEDS, (), generator=generator))
        return torch.Generator().manual_seed(seed ^ self._ranks.all.index)

    def rest(self) -> None:
        """Release memory until the next load or draw."""
        self._inner.rest()

    def close(self) -> None:
        """End this rank's sampler."""
        self._inner.close()


def _own_run(ranks: Ranks, num_prompts: int, together: int = 1) -> tuple[int, int]:
    """Return start and end of this rank's slice of the prompts; the first of ranks `together` has all of theirs."""
    group, place = divmod(ranks.index, together)
    start, end = (num_prompts * border // (ranks.count // together) for border in (group, group + 1))
    return (end, end) if place else (start, end)


def _gathered(ranks: Ranks, own: Samples | None, start: int) -> Samples:
    """Return the responses of all ranks; `start` is the first prompt of this rank's."""
    shifted = None if own is None else replace(own, prompt_index=own.prompt_index + start)
    return _joined([part for part in ranks.gather(shifted) if part is not None])


def _skip(rows: int, config: SamplingConfig, generator: torch.Generator) -> None:
    """Draw and discard the random numbers of other ranks' rows, as `generate` draws them."""
    torch.rand(rows, config.max_new_tokens, dtype=torch.float64, generator=generator)


def _shifted(processor: LogitsProcessor, first_prompt: int, num_samples: int) -> LogitsProcessor:
    """Return the processor for a slice of the prompts: it gets the row and prompt indices of the whole draw."""

    def process(logits: Tensor, step: Step) -> Tensor:
        rows, prompts = step.rows + first_prompt * num_samples, step.prompt_index + first_prompt
        return processor(logits, Step(step.position, rows, prompts, step.chosen))

    return process


def _run_of(samples: Samples, start: int, end: int) -> Samples:
    """Return the rows of a slice of the prompts, as if there were no others."""
    rows = slice(start * samples.num_samples, end * samples.num_samples)
    columns = {field.name: getattr(samples, field.name) for field in fields(Samples)}
    own = {name: column[rows] if isinstance(column, Tensor) else column for name, column in columns.items()}
    return Samples(**own | {"prompt_index": own["prompt_index"] - start})


def _joined(parts: Sequence[Samples]) -> Samples:
    """Return the ranks' responses concatenated; all have the full response width."""
    columns = {}
    for field in fields(Samples):
        values = [getattr(part, field.name) for part in parts]
        columns[field.name] = torch.cat(values) if isinstance(values[0], Tensor) else values[0]
    return Samples(**columns)
