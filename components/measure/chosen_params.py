"""Parameters of stages that let operators measure: which ones, and whether they fit the samples drawn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Annotated, Self

from pydantic import model_validator

from components.contract.errors import InputError, UnknownName
from components.contract.heads import ANY, Head
from components.contract.operators import Bound, OperatorRefused, OperatorSpec
from components.measure.harness.configs import MeasureConfig, metric_names, strategy_name
from components.measure.measure_params import MeasureParams
from components.measure.slots import METRIC, STRATEGY


class ChosenParams(MeasureParams):
    """How a model is sampled, and what operators measure of the samples."""

    metrics: Annotated[tuple[OperatorSpec, ...], METRIC] = ()
    """Further measures with a value for each prompt."""
    strategies: Annotated[tuple[OperatorSpec, ...], STRATEGY] = ()
    """Ways of spending the samples at test time, each with accuracy beside tokens."""

    @property
    def chosen(self) -> tuple[OperatorSpec, ...]:
        """Return all operators that measure."""
        return (*self.metrics, *self.strategies)

    @model_validator(mode="after")
    def _operators_fit(self) -> Self:
        bounds = list(readable(self.chosen))
        drawn = self.num_samples if isinstance(self.num_samples, int) else min(self.num_samples.values(), default=1)
        for bound in bounds:
            assert isinstance(bound.config, MeasureConfig)
            if (least := bound.config.least_samples) > drawn:
                raise InputError(
                    f"{bound.slot} {bound.shown}: needs {least} samples of every prompt, and num_samples is {drawn}"
                )
            if bound.config.whole_distribution and (self.temperature != 1 or self.top_p < 1):
                given = f"temperature {self.temperature:g} and top_p {self.top_p:g}"
                raise InputError(f"{bound.slot} {bound.shown}: samples must be the model's own: {given}, 1 is wanted")
        named = [(name, bound) for bound in bounds for name in _names(bound)]
        counts = Counter(name for name, _ in named)
        for name, bound in named:
            if counts[name] > 1:
                label = ", or give one a label" if bound.slot == STRATEGY else ""
                raise InputError(
                    f"{bound.slot} {bound.shown}: {name!r} is given {counts[name]} times; leave one out{label}"
                )
        return self


def chosen_metrics(params: ChosenParams) -> dict[str, str]:
    """Return the headline metrics that the chosen operators give, each with one line."""
    found: dict[str, str] = {}
    for bound in readable(params.chosen):
        if bound.slot == STRATEGY:
            name = strategy_name(bound)
            found[f"{name}_at_<k>_<domain>"] = f"Accuracy of strategy {bound.shown} with k samples"
            found[f"{name}_tokens_at_<k>_<domain>"] = "Tokens that it draws for a prompt"
        else:
            found |= {f"{name}_<domain>": line for name, line in metric_names(bound).items()}
            if bound.slot == METRIC:
                for name, line in metric_names(bound).items():
                    found[name] = f"{line}; mean over domains"
                    found[f"delta_{name}_<domain>"] = f"{name} minus the baseline's on the same prompts"
    return found


def asked_inputs(params: ChosenParams) -> dict[str, list[str]]:
    """Return input port -> the chosen operators that need it; empty for a port that is read if it is connected."""
    found: dict[str, list[str]] = {}
    for bound in readable(params.chosen):
        assert isinstance(bound.config, MeasureConfig)
        for port in (*bound.config.needs, *bound.config.asked):
            found.setdefault(port, []).append(f"{bound.slot} {bound.shown!r}")
        for port in bound.config.uses:
            found.setdefault(port, [])
    return found


def asked_heads(params: ChosenParams) -> dict[str, frozenset[Head]]:
    """Return input port -> what its further models must give for the chosen operators that need it."""
    found: dict[str, frozenset[Head]] = {}
    for bound in readable(params.chosen):
        assert isinstance(bound.config, MeasureConfig)
        for port in bound.config.asked:
            found[port] = found.get(port, ANY) & bound.config.asks_heads
    return found


def prompt_metrics(params: ChosenParams) -> Iterator[str]:
    """Yield the numbers that every prompt has a value of, without the domain; of strategies NAME_at_."""
    for bound in readable((*params.metrics, *params.strategies)):
        yield from (f"{name}_at_" if bound.slot == STRATEGY else name for name in _names(bound))


def readable(specs: Iterable[OperatorSpec]) -> Iterator[Bound]:
    """Yield the operators that are valid; the others are told where the recipe names them."""
    for spec in specs:
        try:
            yield spec.resolve()
        except (UnknownName, OperatorRefused):
            continue


def _names(bound: Bound) -> Iterable[str]:
    return [strategy_name(bound)] if bound.slot == STRATEGY else metric_names(bound)
