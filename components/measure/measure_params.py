"""Parameters that every measuring stage shares, free of torch and numpy so that declarations can import them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field, model_validator

from components.contract.errors import InputError, did_you_mean
from components.contract.params import Params
from components.modeling.generation.sampling_config import SamplingConfig

if TYPE_CHECKING:
    from components.measure.intervals import Bootstrap

PositiveInt = Annotated[int, Field(ge=1)]


class MeasureParams(Params):
    """How a model is sampled, and how sure the numbers are."""

    num_samples: PositiveInt | dict[str, PositiveInt] = 8
    """Responses per prompt: one number, or a number for each domain."""
    max_new_tokens: int = Field(default=64, ge=1)
    """Longest response in tokens, its end included; longer ones are cut."""
    temperature: float = Field(default=1.0, ge=0)
    """Of sampling; 0 takes the most probable token, which makes sense with one sample only."""
    top_p: float = Field(default=1.0, gt=0, le=1)
    """Sample from the smallest set of tokens whose probability reaches this."""
    bootstrap_samples: int = Field(default=2000, ge=100, le=100_000)
    """Resamples of the prompts behind every interval."""
    confidence: float = Field(default=0.95, gt=0.5, lt=1)
    """Coverage of every interval."""
    max_batch_tokens: int = Field(default=131072, ge=1)
    """Bound on tokens in generation at a time; a smaller one needs less memory and draws other samples."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Precision of the weights."""
    keep_special_tokens: tuple[str, ...] = ()
    """Special tokens of the tokenizer that are text of responses, such as "[THINK]" of a reasoning model. Others are
    left out of what is verified and kept, unless the prompt or its verifier's data names them."""

    @model_validator(mode="after")
    def _greedy_draws_once(self) -> Self:
        drawn = self.num_samples if isinstance(self.num_samples, int) else max(self.num_samples.values(), default=1)
        if self.temperature == 0 and drawn > 1:
            raise ValueError(f"temperature 0 gives the same response each time: num_samples must be 1, not {drawn}")
        return self

    def sampling(self, domain: str) -> SamplingConfig:
        """Return how prompts of `domain` are sampled; raise InputError when num_samples does not name it."""
        if isinstance(self.num_samples, int):
            count = self.num_samples
        elif domain in self.num_samples:
            count = self.num_samples[domain]
        else:
            raise InputError(f"num_samples has no number for domain {domain!r}: add one, or give a single number")
        return SamplingConfig(
            num_samples=count,
            max_new_tokens=self.max_new_tokens,
            temperature=self.temperature,
            top_p=self.top_p,
            max_batch_tokens=self.max_batch_tokens,
        )

    def bootstrap(self, seed: int) -> Bootstrap:
        """Return how intervals are made under `seed`."""
        from components.measure.intervals import Bootstrap

        return Bootstrap(self.bootstrap_samples, self.confidence, seed)

    def check_domains(self, domains: Iterable[str]) -> None:
        """Raise InputError when num_samples and the dataset's domains do not match."""
        known = list(domains)
        for domain in known:
            self.sampling(domain)
        if isinstance(self.num_samples, dict):
            for name in self.num_samples:
                require_domain(name, known, "num_samples")


def require_domain(name: str, known: Iterable[str], owner: str) -> None:
    """Raise InputError, with the near miss, when `name` is none of the dataset's domains."""
    domains = list(known)
    if name not in domains:
        raise InputError(f"{owner}: the dataset has no domain {name!r}{did_you_mean(name, domains)}")
