"""Base of the configs of preference losses: what a loss compares, and the terms that all of them share."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from components.contract.params import Params

Compares = Literal["pairs", "labels", "lists"]
"""A chosen and a rejected response; single responses that are desirable or not; all responses to a task, by score."""


class PreferenceLossConfig(Params):
    """What every loss of preferences has."""

    compares: ClassVar[Compares] = "pairs"
    """What an example is."""
    reference: ClassVar[bool] = True
    """Whether it reads what the reference says of each response."""
    margins: ClassVar[bool] = False
    """Whether every row must say how much better the chosen response is."""
    divergence: ClassVar[bool] = False
    """Whether it reads the batch's estimate of the divergence from the reference."""
    sft: float = Field(default=0.0, ge=0)
    """Weight of one more term: the negative log-likelihood of the preferred responses, mean per token of the batch."""


class PairLossConfig(PreferenceLossConfig):
    """What losses of a pair's margin have."""

    beta: float = Field(default=0.1, gt=0)
    """Scale of the margin: the smaller, the further the policy may move."""
    label_smoothing: float = Field(default=0.0, ge=0, lt=0.5)
    """Share of pairs that are taken to be labelled the wrong way round."""
