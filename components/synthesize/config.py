"""Base of the configs of generators: what their rows are, and how writers are asked."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from components.contract.params import Params

Kind = Literal["prompts", "demonstrations", "labelled", "preferences", "corpus"]


class GeneratorConfig(Params):
    """How many texts are asked for, and how they are drawn."""

    kind: ClassVar[Kind] = "demonstrations"
    """What its rows are: prompts, prompts with responses, judged responses (`completion`, `label`), pairs of them, or
    plain text."""
    judges: ClassVar[bool] = False
    """Whether it asks judges beside the writers."""
    scorers: ClassVar[bool] = False
    """Whether it asks a scorer."""
    writes: ClassVar[bool] = True
    """Whether it asks writers at all."""
    seeded: ClassVar[bool] = True
    """Whether it makes rows from items; if not, from its settings alone."""
    labelled: ClassVar[bool] = True
    """Whether its rows have answers that a verifier can check."""

    num_samples: int = Field(default=4, ge=1)
    """Texts that each writer writes to one request."""
    max_new_tokens: int = Field(default=256, ge=1)
    """Longest text, in tokens of the model that writes it; texts that are cut there are dropped."""
    temperature: float = Field(default=1.0, ge=0)
    """Of the writers; 0 takes the most probable token."""
