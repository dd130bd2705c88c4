"""The interface of further models: text in, text or a likelihood out.

Models exchange plain text and each uses its own tokenizer, so that models of different vocabularies can score the same
response.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from components.contract.errors import InputError
from components.contract.messages import Message, transcript

Asked = str | Sequence[Message]
"""What a model is asked: a prompt, or messages that end with the user's."""


@dataclass(frozen=True)
class Drawing:
    """How texts are drawn."""

    num_samples: int = 1
    max_new_tokens: int = 256
    """Longest text in tokens of the model that writes it."""
    temperature: float = 1.0
    seed: int = 0
    """Same seed, same texts: always from weights in this process; at an endpoint, because its answers are kept."""


@dataclass(frozen=True)
class Written:
    """A text that a model wrote: hostile input for its readers."""

    text: str
    finished: bool
    """Whether it ended by itself; False if it was cut at the limit."""


@dataclass(frozen=True)
class Likelihood:
    """How likely a text is under a model, given its prompt."""

    logprob: float
    """Sum over the tokens of the text, without the mark that ends a turn, in nats."""
    num_tokens: int
    """Tokens of the text, by the tokenizer of the model that scores it."""

    @property
    def mean(self) -> float:
        """Return nats per token; 0 for an empty text."""
        return self.logprob / self.num_tokens if self.num_tokens else 0.0


@dataclass(frozen=True)
class Opinions:
    """What the heads of an ensemble say of a text: a Gaussian each."""

    means: tuple[float, ...]
    log_stds: tuple[float, ...]
    """Logarithms of the standard deviations: the smaller, the surer a head is."""


class Writer(ABC):
    """Writes texts."""

    name: str
    """Its name in a recipe, the input that it comes from: "judge.model" or "endpoint:gpt-small"."""

    @abstractmethod
    def write(self, prompts: Sequence[Asked], drawing: Drawing) -> list[list[Written | None]]:
        """Return `num_samples` texts to every prompt or conversation; None for one that the model refuses to write."""


class Scorer(ABC):
    """Scores how likely texts are."""

    name: str

    @abstractmethod
    def score(self, pairs: Sequence[tuple[str, str]]) -> list[Likelihood | None]:
        """Return the likelihood of each (prompt, text); None for one that the model cannot score, such as too long."""


def as_text(asked: Asked) -> str:
    """Return a prompt, or messages as readable text."""
    return asked if isinstance(asked, str) else transcript(asked)


class Rater:
    """Gives a text a number: how good it is. Only reward models do; for every other model it is an error."""

    name: str

    def rate(self, pairs: Sequence[tuple[Asked, str]]) -> list[float | None]:
        """Return the reward of each (task, response); None for one that cannot be rated, such as too long."""
        raise InputError(
            f"{self.name} is a language model, and a reward model is wanted: it gives a text no score; take one that "
            "stage reward_model made"
        )

    def opinions(self, pairs: Sequence[tuple[Asked, str]]) -> list[Opinions | None]:
        """Return what each head of an ensemble says of each (task, response); None for one that cannot be rated."""
        raise InputError(
            f"{self.name} has no heads with means and spreads, and an ensemble is wanted: train a reward model with "
            "scorer_loss gaussian_ensemble"
        )
