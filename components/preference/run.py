"""The preference stage: read comparisons, ask the reference once, train, save."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from components.contract.context import StageContext
from components.contract.errors import InputError
from components.contract.further import REFERENCE
from components.measure.intervals import Interval
from components.measure.metrics import add_metrics
from components.modeling.loading.load import load_to_train
from components.modeling.models.policy import Policy
from components.modeling.supervised.training_stage import TAIL_STEPS, train_and_save
from components.modeling.supervised.usable import cut_by
from components.modeling.text.overlong import Limit
from components.modeling.text.turns import check_rendered
from components.preference.comparisons import Comparison, encoded, fitting, with_others, without_equal
from components.preference.reading import Read, check_classes, read_candidates
from components.preference.reference import opened_reference
from components.preference.training import Preferences, PreferenceSummary, fit_preferences
from components.tasks.row_kinds.reading import Task

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
    read, train, counts = _comparisons(ctx, policy, "dataset")
    check_classes(read, params.preference_loss.name, params.comparing)
    _, held_out, of_held_out = _comparisons(ctx, policy, "validation")
    reference = partial(opened_reference, ctx, policy.tokenizer) if ctx.inputs(REFERENCE) else None
    num_overlong = int(counts.pop("num_overlong", 0))
    preferences = Preferences(params.preference_loss.resolve(), train, held_out, reference, num_overlong)
    fitted = partial(fit_preferences, preferences=preferences)
    summary = train_and_save(ctx, policy, (), params, fitted=fitted, left_out=counts)
    assert isinstance(summary, PreferenceSummary)
    left_out = _left_out(read) | {f"{name}_validation": count for name, count in of_held_out.items()}
    _add(ctx, {**_tail(ctx), **left_out, **_length_bias(train), **summary.held_out})


def _comparisons(
    ctx: StageContext[PreferenceParams], policy: Policy, port: str
) -> tuple[Read, list[Comparison], dict[str, float]]:
    """Return what the rows of an input hold, the comparisons that fit, and counts of the others that are not 0."""
    params, config = ctx.params, ctx.params.comparing
    folders = [artifact.path for artifact in ctx.inputs(port)]
    check = partial(_check_readable, policy)
    read = read_candidates(folders, params.preference_loss.name, config, params.bad_rows, check)
    made = encoded(policy, read.examples, params.context_tags)
    differing = without_equal(made)
    if num_equal := len(made) - len(differing):
        first = next(one for one in made if one not in differing)
        told = f"{num_equal} of {len(made)} examples have sides of the same tokens, the first {first.where}"
        if not differing:
            raise InputError(f"{told}: such a pair prefers nothing, and none is left")
        ctx.tell(f"{told}: left out")
    limit = Limit.of_example(params.max_tokens, policy.max_positions)
    fitted = fitting(differing, limit, params.overlong, ctx)
    others = with_others(fitted.kept, limit.tokens) if config.divergence and fitted.kept else fitted.kept
    counts = {"num_equal": num_equal, "num_overlong": fitted.num_overlong, "num_cut": fitted.num_cut}
    return read, others, {name: float(count) for name, count in counts.items() if count}


def _check_readable(policy: Policy, task: Task, texts: Sequence[str]) -> None:
    """Raise InputError for a response that would be cut at a mark within it, or messages that cannot be rendered."""
    if policy.tokenizer is None:
        return  # told where they are encoded
    if not isinstance(task, str):
        check_rendered(policy.tokenizer, policy.ends, task)
    for text in texts:
        if problem := cut_by(policy.tokenizer, policy.ends, text):
            raise InputError(problem)


def _tail(ctx: StageContext[PreferenceParams]) -> dict[str, float]:
    """Return means over the last rows of the history, which has finite values alone: a single batch is noisy."""
    history = ctx.history()
    columns = {name: [row[name] for row in history if name in row][-TAIL_STEPS:] for name in TAIL_COLUMNS}
    return {name: sum(values) / len(values) for name, values in columns.items() if values}


def _left_out(read: Read) -> dict[str, float]:
    counts = {"num_unranked": read.num_unranked, "num_weightless": read.num_weightless}
    return {"num_bad": float(read.num_bad), **{name: float(count) for name, count in counts.items() if count}}


def _length_bias(train: Sequence[Comparison]) -> dict[str, float]:
    """Return how often the chosen response of a pair is the longer one: far from 1/2, length may be what is learnt."""
    lengths = [one.compared for one in train if len(one.responses) == 2]
    longer = [(chosen > rejected) + (chosen == rejected) / 2 for chosen, rejected in lengths]
    return {"chosen_longer": sum(longer) / len(longer)} if longer else {}


def _add(ctx: StageContext[PreferenceParams], metrics: dict[str, float | Interval]) -> None:
    ctx.headline(**{name: value.value if isinstance(value, Interval) else value for name, value in metrics.items()})
    add_metrics(ctx.output("metrics"), metrics)
