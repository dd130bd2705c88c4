"""The preference stage: read comparisons, ask the reference once, train, save."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from components.contract.context import StageContext
from components.contract.further import REFERENCE
from components.measure.intervals import Interval
from components.measure.metrics import add_metrics
from components.modeling.loading.load import load_to_train
from components.modeling.models.policy import Policy
from components.modeling.supervised.training_stage import TAIL_STEPS, train_and_save
from components.preference.comparisons import Comparison, encoded, fitting, with_others
from components.preference.reading import Read, read_candidates
from components.preference.reference import opened_reference
from components.preference.training import Preferences, PreferenceSummary, fit_preferences

if TYPE_CHECKING:
    from components.preference.params import PreferenceParams

TAIL_COLUMNS = ("accuracy", "margin")
"""Columns whose mean over the last rows of the history is a headline."""


def run(ctx: StageContext[PreferenceParams]) -> None:
    """Train input `model` on the comparisons of input `dataset`, against input `reference` or its own start.

    A row's `weight` is that of its comparison; rows of weight 0 are not drawn.
    """
    params = ctx.params
    policy = load_to_train(ctx, lora=params.lora, dtype=params.dtype)
    read, train, num_overlong = _comparisons(ctx, policy, "dataset")
    _, held_out, num_overlong_validation = _comparisons(ctx, policy, "validation")
    reference = partial(opened_reference, ctx, policy.tokenizer) if ctx.inputs(REFERENCE) else None
    preferences = Preferences(params.preference_loss.resolve(), train, held_out, reference, num_overlong)
    fitted = partial(fit_preferences, preferences=preferences)
    summary = train_and_save(ctx, policy, (), params, fitted=fitted)
    assert isinstance(summary, PreferenceSummary)
    left_out = _left_out(read, num_overlong_validation)
    _add(ctx, {**_tail(ctx), **left_out, **_length_bias(train), **summary.held_out})


def _comparisons(ctx: StageContext[PreferenceParams], policy: Policy, port: str) -> tuple[Read, list[Comparison], int]:
    """Return what the rows of an input hold, the comparisons of at most `max_tokens`, and how many are longer."""
    params, config = ctx.params, ctx.params.comparing
    folders = [artifact.path for artifact in ctx.inputs(port)]
    read = read_candidates(folders, params.preference_loss.name, config, params.bad_rows)
    found = fitting(encoded(policy, read.examples, params.context_tags), params.max_tokens)
    others = with_others(found, params.max_tokens) if config.divergence and found else found
    return read, others, len(read.examples) - len(found)


def _tail(ctx: StageContext[PreferenceParams]) -> dict[str, float]:
    """Return means over the last rows of the history, which has finite values alone: a single batch is noisy."""
    history = ctx.history()
    columns = {name: [row[name] for row in history if name in row][-TAIL_STEPS:] for name in TAIL_COLUMNS}
    return {name: sum(values) / len(values) for name, values in columns.items() if values}


def _left_out(read: Read, num_overlong_validation: int) -> dict[str, float]:
    counts = {
        "num_unranked": read.num_unranked,
        "num_weightless": read.num_weightless,
        "num_overlong_validation": num_overlong_validation,
    }
    return {"num_bad": float(read.num_bad), **{name: float(count) for name, count in counts.items() if count}}


def _length_bias(train: Sequence[Comparison]) -> dict[str, float]:
    """Return how often the chosen response of a pair is the longer one: far from 1/2, length may be what is learnt."""
    lengths = [one.compared for one in train if len(one.responses) == 2]
    longer = [(chosen > rejected) + (chosen == rejected) / 2 for chosen, rejected in lengths]
    return {"chosen_longer": sum(longer) / len(longer)} if longer else {}


def _add(ctx: StageContext[PreferenceParams], metrics: dict[str, float | Interval]) -> None:
    ctx.headline(**{name: value.value if isinstance(value, Interval) else value for name, value in metrics.items()})
    add_metrics(ctx.output("metrics"), metrics)
