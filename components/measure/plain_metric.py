"""Metrics in users' files: `def share_polite(responses, outcomes, **columns) -> float | None`.

It runs in the stage's own process: it is the user's code, as an import is. What the responses hold is data to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from components.contract.errors import PosttrainError
from components.contract.operator_files.operator import FileOperator
from components.contract.params import Params

if TYPE_CHECKING:
    from components.measure.harness.context import MeasureContext
    from components.measure.outcomes import ItemOutcomes


def adapt(operator: FileOperator) -> Callable[..., Mapping[str, list[Any]]]:
    """Return a function of a user's file as a metric operator, called as the function is."""

    def metric(outcomes: Sequence[ItemOutcomes], context: MeasureContext, *, config: Params) -> Mapping[str, list[Any]]:
        """Return the function's number for each prompt."""
        return {operator.name.function: [_value(operator, outcome) for outcome in outcomes]}

    return metric


def columns(outcome: ItemOutcomes) -> dict[str, Any]:
    """Return what a metric function may take by name: the responses, their outcomes, and the row's columns."""
    item = outcome.item
    own = {name: value for name, value in item.data.items() if name != "settings"}
    judged = [verdict.outcome.value for verdict in outcome.verdicts]
    given = {"id": item.id, "domain": item.domain, "prompt": item.prompt, "answer": item.answer}
    return {**own, **given, "responses": list(outcome.responses), "outcomes": judged, "lengths": list(outcome.lengths)}


def _value(operator: FileOperator, outcome: ItemOutcomes) -> Any:
    try:
        returned = operator.call_by_name(columns(outcome))
    except PosttrainError:
        raise
    except Exception as error:
        raise operator.raised(error, f"for prompt {outcome.item.id}") from error
    return returned.tolist() if hasattr(returned, "tolist") else returned  # a number of numpy or torch
