"""The view of a trained model beside its base: curves, crossing, coverage and perplexities."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from components.contract.further import REFERENCE
from components.measure.formulas.crossing import first_crossing
from components.measure.harness.context import MeasureContext, Pairs, paired, powers_of_two
from components.measure.harness.views import Chart, Line, View, ViewTable
from components.measure.intervals import Bootstrap, Floats, Interval
from components.measure.metrics import metric_key
from components.measure.outcomes import ItemOutcomes
from components.tasks.seeds import derive_seed

if TYPE_CHECKING:
    from components.modeling.serving.further import FurtherModel

TEXT = (
    "Where the base's curve reaches the trained model's, the trained model only finds sooner what the base finds too. "
    "Perplexities say whether its responses were likely under the base already."
)
COVERAGE = ("solved_both", "solved_base_only", "solved_here_only", "solved_none")


def boundary_view(
    outcomes: Mapping[str, Sequence[ItemOutcomes]], context: MeasureContext, *, largest: int | None, own_samples: int
) -> View:
    """Return the view of all domains that the baseline shares."""
    assert context.baseline is not None
    metrics: dict[str, Interval | float] = {}
    rows, charts = [], []
    for domain, pairs in paired("diagnostic boundary", outcomes, context.baseline.ledger):
        ks = [k for k in powers_of_two(pairs.num_samples) if k <= (largest or k)]
        numbers = _numbers(pairs, sorted({*ks, largest or ks[-1]}), context.bootstrap)
        numbers |= _perplexities(outcomes[domain], context, own_samples)
        metrics |= {metric_key(name, domain): value for name, value in numbers.items()}
        names = ("crossover_k", "crossing_share", *COVERAGE, "gap_to_base")
        shown = (*names, "reference_perplexity", "reference_own_perplexity", "boundary_unpaired")
        rows.append([domain, *(numbers.get(name) for name in shown)])
        charts.append(_chart(domain, pairs, ks, context.bootstrap))
    head = [
        "domain",
        "crossover k",
        "chance of one",
        "both",
        "base only",
        "here only",
        "neither",
        "base pass@K - pass@1",
    ]
    head += ["perplexity under reference", "of reference's own", "unpaired"]
    return View(TEXT, metrics, [ViewTable("boundary", head, rows)], charts)


def _numbers(pairs: Pairs, ks: Sequence[int], bootstrap: Bootstrap) -> dict[str, Interval | float]:
    ours, theirs = pairs.pass_at(ks)
    (crossing,) = first_crossing(theirs.mean(axis=0)[None], ours.mean(axis=0)[None], ks)
    drawn = bootstrap.means(np.hstack([theirs, ours]))
    crossed = first_crossing(drawn[:, : len(ks)], drawn[:, len(ks) :], ks) > 0
    solved = np.array(
        [[one.num_right > 0, other.num_right > 0] for one, other in zip(pairs.ours, pairs.theirs, strict=True)]
    )
    here, base = solved[:, 0], solved[:, 1]
    counts = [(here & base).sum(), (~here & base).sum(), (here & ~base).sum(), (~here & ~base).sum()]
    return {
        "crosses": float(crossing > 0),
        "crossing_share": float(crossed.mean()),
        **({"crossover_k": float(crossing)} if crossing else {}),
        **dict(zip(COVERAGE, map(float, counts), strict=True)),
        "gap_to_base": bootstrap.mean_interval(theirs[:, -1] - ours[:, 0]),
        "boundary_unpaired": float(pairs.num_left_out),
    }


def _chart(domain: str, pairs: Pairs, ks: Sequence[int], bootstrap: Bootstrap) -> Chart:
    ours, theirs = pairs.pass_at(ks)
    lines = []
    for name, values in (("this model", ours), ("base", theirs)):
        found = bootstrap.mean_intervals(values)
        points = [(float(k), one.value) for k, one in zip(ks, found, strict=True)]
        lines.append(Line(name, points, [(one.low, one.high) for one in found]))
    return Chart(f"pass@k, {domain}", lines, "k", "pass@k, %", x_log2=True)


def _perplexities(
    outcomes: Sequence[ItemOutcomes], context: MeasureContext, own_samples: int
) -> dict[str, Interval | float]:
    models = context.further.get(REFERENCE, ())
    if not models:
        return {}
    found = {
        "reference_perplexity": _perplexity(models[0], _written(outcomes), context.bootstrap),
        "reference_own_perplexity": _perplexity(
            models[0], _drawn(models[0], outcomes, context, own_samples), context.bootstrap
        ),
    }
    return {name: value for name, value in found.items() if math.isfinite(value.value)}


def _written(outcomes: Sequence[ItemOutcomes]) -> list[list[tuple[str, str]]]:
    return [
        [
            (outcome.item.prompt_with(outcome.turns[row] if outcome.turns else ()), response)
            for row, response in enumerate(outcome.responses)
        ]
        for outcome in outcomes
    ]


def _drawn(
    model: FurtherModel, outcomes: Sequence[ItemOutcomes], context: MeasureContext, own_samples: int
) -> list[list[tuple[str, str]]]:
    from components.modeling.serving.models import Drawing

    prompts = [outcome.item.prompt for outcome in outcomes]
    drawing = Drawing(
        num_samples=own_samples,
        max_new_tokens=context.max_new_tokens,
        temperature=context.temperature,
        seed=derive_seed(context.seed, "boundary", *(outcome.item.id for outcome in outcomes)),
    )
    texts = model.write(prompts, drawing)
    return [
        [(prompt, one.text) for one in found if one is not None] for prompt, found in zip(prompts, texts, strict=True)
    ]


def _perplexity(model: FurtherModel, pairs: Sequence[Sequence[tuple[str, str]]], bootstrap: Bootstrap) -> Interval:
    """Return exp of the nats by token over all responses, with prompts resampled; unscored responses are left out."""
    scored = iter(model.score([pair for group in pairs for pair in group]))
    sums = np.zeros((len(pairs), 2))
    for place, group in enumerate(pairs):
        for _ in group:
            likelihood = next(scored)
            if likelihood is not None:
                sums[place] += (likelihood.logprob, likelihood.num_tokens)

    def statistic(weights: Floats) -> Floats:
        totals = np.einsum("bp,pk->bk", weights, sums)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.exp(-totals[:, 0] / totals[:, 1])

    return bootstrap.statistic(statistic, len(pairs))
