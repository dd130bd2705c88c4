"""Base configs of an evaluation's operators: what they give, and what a stage must have for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field

from components.contract.operators import Bound
from components.contract.params import Params


class MeasureConfig(Params):
    """Base of configs of an evaluation's operators."""

    gives: ClassVar[Mapping[str, str]] = {}
    """Metrics by name with one line each, without the domain; empty: one, called as the operator is."""
    needs: ClassVar[tuple[str, ...]] = ()
    """Input ports that must be connected."""
    uses: ClassVar[tuple[str, ...]] = ()
    """Input ports with further models that are read if they are connected."""
    whole_distribution: ClassVar[bool] = False
    """Whether its numbers mean nothing unless samples are drawn at temperature 1 from all tokens."""

    @property
    def asked(self) -> tuple[str, ...]:
        """Return the input ports with further models that these settings require."""
        return tuple(type(self).asks)

    @property
    def reads_model(self) -> bool:
        """Return whether it draws from the measured model, or passes through it."""
        return False

    @property
    def least_samples(self) -> int:
        """Return how many samples of every prompt these settings need."""
        return 1


class MetricConfig(MeasureConfig):
    """Base of metric configs."""


class DiagnosticConfig(MeasureConfig):
    """Base of diagnostic configs."""


class StrategyConfig(MeasureConfig):
    """Base of strategy configs."""

    short: ClassVar[str] = ""
    """How its numbers are called, SHORT_at_K; empty: as the operator."""

    label: str = Field(default="", pattern=r"^[a-z0-9_]*$", max_length=40)
    """How its numbers are called in the place of the operator's name, so that it can be there twice."""


def own_name(bound: Bound) -> str:
    """Return the name of an operator in metrics: of one in a user's file, the function's."""
    return bound.file.name.function if bound.file else bound.name


def metric_names(bound: Bound) -> dict[str, str]:
    """Return the metrics that a metric or a diagnostic gives, without the domain, each with one line."""
    assert isinstance(bound.config, MeasureConfig)
    return dict(bound.config.gives) or {own_name(bound): f"Given by {bound.slot} {bound.shown}"}


def strategy_name(bound: Bound) -> str:
    """Return how a strategy's numbers are called."""
    assert isinstance(bound.config, StrategyConfig)
    return bound.config.label or bound.config.short or own_name(bound)
