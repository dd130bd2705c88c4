"""Difficulty: a policy's pass rate on each prompt, measured by sampling, and the range to keep."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from pydantic import Field, model_validator

from components.contract.errors import InputError
from components.contract.params import Params
from components.curation.candidate import Candidate

if TYPE_CHECKING:
    from components.contract.context import StageContext
    from components.modeling.generation.sampler import Sampler

LOG = "passrates"


class DifficultyConfig(Params):
    """How difficulty is measured, and what is kept."""

    num_samples: int = Field(default=8, ge=1)
    """Responses per prompt; a pass rate is a multiple of 1 / num_samples."""
    keep: tuple[float, float] = (0.0, 1.0)
    """Keep prompts whose pass rate lies in this range, both ends included."""
    buckets: tuple[float, ...] = (0.25, 0.5, 0.75)
    """Inner edges of the difficulty buckets; bucket 0 is the hardest, and an edge belongs to the easier side."""
    max_new_tokens: int = Field(default=64, ge=1)
    """Longest response, in tokens."""
    temperature: float = Field(default=1.0, ge=0)
    """Sampling temperature."""
    top_p: float = Field(default=1.0, gt=0, le=1)
    """Nucleus sampling; 1 keeps all tokens."""
    keep_special_tokens: tuple[str, ...] = ()
    """Special tokens of the tokenizer that are text of responses, such as "[THINK]" of a reasoning model. Others are
    left out of what is verified and kept, unless the prompt or its verifier's data names them."""
    candidates: float = Field(default=4.0, ge=1)
    """Maximum prompts to measure per wanted prompt; measuring stops as soon as enough are kept."""
    chunk: int = Field(default=128, ge=1)
    """Prompts measured between two checkpoints."""

    @model_validator(mode="after")
    def _ordered(self) -> DifficultyConfig:
        if not 0 <= self.keep[0] <= self.keep[1] <= 1:
            raise InputError(f"keep: expected 0 <= low <= high <= 1, found {list(self.keep)}")
        if sorted(set(self.buckets)) != list(self.buckets) or not all(0 < edge < 1 for edge in self.buckets):
            raise InputError(f"buckets: expected rising edges between 0 and 1, found {list(self.buckets)}")
        return self


@dataclass(frozen=True)
class PassCount:
    """Outcomes of one prompt's samples; failed verifications are counted separately."""

    num_right: int
    num_wrong: int
    num_failed: int

    @property
    def rate(self) -> float | None:
        """Return right samples as a share of verified ones; None if all verifications failed."""
        verified = self.num_right + self.num_wrong
        return self.num_right / verified if verified else None


class Difficulty:
    """Measures drafts in chunks and checkpoints each chunk, so that a kill loses at most one chunk."""

    def __init__(self, config: DifficultyConfig, context: StageContext[Any]) -> None:
        self._config, self._context = config, context
        self._chunks = [[PassCount(*counts) for counts in chunk] for chunk in context.appended(LOG)]
        self._done = 0
        self.step: Callable[[], int] = lambda: self.num_chunks
        """Gives the number of the next checkpoint."""
        self._sampler: Sampler | None = None

    def select(self, drafts: Iterator[Candidate], want: int | None) -> Iterator[tuple[Candidate, str | None]]:
        """Yield drafts with their pass rate and drop reason, up to the chunk that reaches `want` kept drafts.

        Later drafts are neither drawn nor measured.
        """
        kept = 0
        while (want is None or kept < want) and (chunk := list(islice(drafts, self._config.chunk))):
            for draft, count in zip(chunk, self._measured(chunk), strict=True):
                reason = self._reason(count)
                kept += reason is None
                yield self._graded(draft, count), reason

    @property
    def num_chunks(self) -> int:
        """Return how many chunks are measured, those of earlier attempts included."""
        return len(self._chunks)

    def close(self) -> None:
        """Close the sampler."""
        if self._sampler is not None:
            self._sampler.close()

    def _reason(self, count: PassCount) -> str | None:
        low, high = self._config.keep
        if count.rate is None:
            return "verification_failed"
        if count.rate < low:
            return "too_hard"
        return "too_easy" if count.rate > high else None

    def _graded(self, draft: Candidate, count: PassCount) -> Candidate:
        if count.rate is None:
            return draft
        return draft.with_extras(pass_rate=count.rate, bucket=bisect_right(self._config.buckets, count.rate))

    def _measured(self, drafts: Sequence[Candidate]) -> list[PassCount]:
        if self._done == len(self._chunks):
            self._chunks.append(chunk := self._sample(drafts))
            self._context.append(LOG, [[[count.num_right, count.num_wrong, count.num_failed] for count in chunk]])
            self._context.checkpoint(self.step(), lambda folder: None)  # the log is all there is
        counts = self._chunks[self._done]
        self._done += 1
        return counts

    def _sample(self, drafts: Sequence[Candidate]) -> list[PassCount]:
        from components.measure.sampling import sample_and_verify
        from components.modeling.generation.choose import open_sampler
        from components.modeling.generation.sampling_config import SamplingConfig
        from components.modeling.loading.load import load_policy

        if self._sampler is None:
            policy = load_policy(self._context.input("policy").path, device=self._context.device)
            policy.keep_special_tokens(self._config.keep_special_tokens)
            self._sampler = open_sampler(policy, self._context.job.resources)
        sampling = SamplingConfig(
            num_samples=self._config.num_samples,
            max_new_tokens=self._config.max_new_tokens,
            temperature=self._config.temperature,
            top_p=self._config.top_p,
        )
        items = [draft.item for draft in drafts if draft.item is not None]
        if len(items) < len(drafts):
            raise InputError("difficulty: the sources hold plain text, which has no answers to verify")
        outcomes = sample_and_verify(self._sampler, items, sampling, seed=self._context.seed)
        return [PassCount(o.num_right, o.num_wrong, o.num_failed) for o in outcomes]
