"""Base of the configs of scorer losses: which rows they learn from, where the head is read, and what it gives."""

from __future__ import annotations

from typing import ClassVar

from components.contract.params import Params
from components.modeling.scorers.layout import Layout
from components.tasks.row_kinds.reading import Kind


class ScorerLossConfig(Params):
    """Base of configs of scorer losses."""

    rows: ClassVar[Kind] = "preferences"
    """The kind of rows: pairs, labelled responses, or steps."""
    by_place: ClassVar[bool] = False
    """Whether each token at which the head is read has a loss of its own, and counts the same; else each row does."""
    every_token: ClassVar[bool] = False
    """Whether the head is read at all tokens of a response, and not at its last alone."""

    @property
    def chances(self) -> bool:
        """Return whether a reward tells how likely a response, or a step, is to be good; of pairs, a difference."""
        return self.rows == "preferences"

    def layout(self) -> Layout:
        """Return what the model reads, and what its outputs are."""
        return Layout()

    def target(self, label: bool | None, score: float | None) -> float:
        """Return what a labelled response should be scored; raise InputError where its row does not say."""
        raise NotImplementedError
