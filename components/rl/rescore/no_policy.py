"""What stands for the policy where responses are only judged: a tokenizer, and a refusal of everything else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from components.contract.errors import InputError
from components.modeling.models.folder import load_tokenizer, read_config, read_generation_config
from components.modeling.text.turn_ends import find_turn_ends
from components.rl.step.collector import Collector

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


class NotKept(InputError):
    """An operator asks for what the journal does not hold."""

    def __init__(self, what: str = "the policy") -> None:
        super().__init__(f"reads {what}, and the weights of each step are not kept")


class TextsAlone:
    """A policy of which there are only the tokenizer and the ends of responses."""

    def __init__(self, model: Path, keep_special_tokens: Sequence[str]) -> None:
        tokenizer = load_tokenizer(model)
        if tokenizer is None:
            raise InputError("rescore: the model has no tokenizer")
        self.tokenizer: PreTrainedTokenizerFast = tokenizer
        ends = find_turn_ends(tokenizer, read_config(model), read_generation_config(model))
        self.ends = ends.keeping(keep_special_tokens, tokenizer) if keep_special_tokens else ends

    @property
    def eos_ids(self) -> tuple[int, ...]:
        """Return the tokens that end a response."""
        return self.ends.ids

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NotKept


class NoPolicies:
    """In the place of the policies that a step may compare."""

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NotKept(f"the {name} policy")


class JudgingCollector(Collector):
    """A collector that verifies, and draws nothing."""

    def draw(self, *given: Any, **options: Any) -> NoReturn:
        """Refuse."""
        raise NotKept

    step = 0
    """Steps done before the one that is judged."""
    converse = draw_ahead = rescore = responses = likelihood = ask = probe = draw
