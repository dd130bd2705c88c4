"""What a run cost, as MLflow metrics below cost/: of each stage, and of the whole run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from mlflow.entities import Metric

from components.contract.errors import CorruptArtifact
from components.runtime.costs.amounts import Amount, Rate, total
from components.runtime.costs.attempts import attempts_of
from components.runtime.ledger.records import action_key
from components.runtime.lineage.events import RunStarted, StageFinished
from components.runtime.lineage.names import mlflow_name

if TYPE_CHECKING:
    from components.runtime.costs.attempts import Attempt
    from components.runtime.store import Store

FOLDER = "cost"
NO_CURRENCY = "price"
"""Name of the metric with a price whose currency pools.yaml does not say."""


def stage_costs(store: Store, first: RunStarted, stage: str, milliseconds: int) -> list[Metric]:
    """Return what all attempts at a stage took so far; none of runs from before attempts were recorded."""
    rate = _rates(first).get(stage)
    attempts = attempts_of(store, first.run_id, stage)[0].get(stage, [])
    return _metrics(_taken(attempts, rate), len(attempts), milliseconds) if attempts or rate else []


def run_costs(store: Store, first: RunStarted, milliseconds: int) -> list[Metric]:
    """Return what all attempts at all stages took so far."""
    rates, found = _rates(first), attempts_of(store, first.run_id)[0]
    amount = total(_taken(attempts, rates.get(stage)) for stage, attempts in found.items())
    return _metrics(amount, sum(map(len, found.values())), milliseconds) if found or rates else []


def saved_costs(store: Store, first: RunStarted, event: StageFinished) -> list[Metric]:
    """Return what the work took that a cached stage reuses, or a fork shares."""
    rate, seconds = _rates(first).get(event.stage), _saved_seconds(store, event)
    if rate is None or seconds is None:
        return []
    amount = rate.amount(seconds)
    values = {"saved_gpu_hours": amount.gpu_hours, "saved_cpu_hours": amount.cpu_hours}
    values |= {f"saved_{_name(currency)}": value for currency, value in amount.prices.items()}
    return _named(values, event.milliseconds)


def _saved_seconds(store: Store, event: StageFinished) -> float | None:
    if event.cache != "hit" or event.fingerprint is None:
        return float(event.fork["seconds"]) if event.fork else None
    try:
        action = store.get(action_key(event.fingerprint))
    except CorruptArtifact:
        return None
    return float(action["seconds"]) if action else None


def _rates(first: RunStarted) -> dict[str, Rate]:
    known = {stage.name: Rate.of_record(stage.rate) for stage in first.stages}
    return {name: rate for name, rate in known.items() if rate is not None}


def _taken(attempts: Iterable[Attempt], rate: Rate | None) -> Amount:
    return total(attempt.amount(rate) for attempt in attempts)


def _metrics(amount: Amount, attempts: int, milliseconds: int) -> list[Metric]:
    values = {"gpu_hours": amount.gpu_hours, "cpu_hours": amount.cpu_hours, "attempts": float(attempts)}
    values |= {} if amount.cpu_hours_used is None else {"cpu_hours_used": amount.cpu_hours_used}
    values |= {_name(currency): value for currency, value in amount.prices.items()}
    return _named(values, milliseconds)


def _name(currency: str) -> str:
    return currency.lower() or NO_CURRENCY


def _named(values: dict[str, float], milliseconds: int) -> list[Metric]:
    return [Metric(mlflow_name(f"{FOLDER}/{name}"), value, milliseconds, 0) for name, value in values.items()]
