"""The view of empirical support: cells, scores, and entropies beside the base's."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from components.measure.formulas.diversity import sample_entropy
from components.measure.formulas.support import CELLS, SCORES, cells, scores
from components.measure.harness.context import MeasureContext, paired
from components.measure.harness.views import Cell, View, ViewTable
from components.measure.intervals import Interval
from components.measure.metrics import metric_key
from components.measure.outcomes import ItemOutcomes

TEXT = (
    "Preserved: solved by both; shrunk: by the base alone; expanded: by this model alone; out: by neither. Entropy of "
    "tokens and of answers may move apart."
)


def support_view(
    outcomes: Mapping[str, Sequence[ItemOutcomes]], context: MeasureContext, *, budget: int | None
) -> View:
    """Return the view of all domains that the baseline shares."""
    assert context.baseline is not None
    metrics: dict[str, Interval | float] = {}
    rows, entropies = [], []
    for domain, pairs in paired("diagnostic support", outcomes, context.baseline.ledger):
        ours, theirs = pairs.pass_at([budget or pairs.num_samples])
        table = cells(theirs[:, 0], ours[:, 0])
        shares = dict(zip(CELLS, context.bootstrap.mean_intervals(table), strict=True))
        found = {
            name: context.bootstrap.statistic(
                lambda weights, at=place, table=table: scores(np.einsum("bp,pc->bc", weights, table))[:, at], len(table)
            )
            for place, name in enumerate(SCORES)
        }
        numbers = {f"support_{name}": one for name, one in (shares | found).items() if math.isfinite(one.value)}
        metrics |= {metric_key(name, domain): one for name, one in numbers.items()}
        metrics[metric_key("support_unpaired", domain)] = float(pairs.num_left_out)
        named = [numbers.get(f"support_{name}") for name in (*CELLS, *SCORES)]
        rows.append([domain, str(budget or pairs.num_samples), *named, float(pairs.num_left_out)])
        entropies.append(_entropies(domain, outcomes[domain], context))
    head = ["domain", "k", *CELLS, *(name.upper() for name in SCORES), "unpaired"]
    both = ["domain", "tokens, base", "tokens, here", "answers, base", "answers, here"]
    tables = [ViewTable("support", head, rows), ViewTable("entropy, nats", both, entropies)]
    return View(TEXT, metrics, tables)


def _entropies(domain: str, outcomes: Sequence[ItemOutcomes], context: MeasureContext) -> list[Cell]:
    """Return the entropy of tokens and of answers, base and here."""
    assert context.baseline is not None
    tokens = context.bootstrap.mean_interval([float(np.mean(outcome.entropies)) for outcome in outcomes])
    of_answers = [sample_entropy(outcome.verified_answers[0]) for outcome in outcomes]
    answers = context.bootstrap.mean_interval([math.nan if one is None else one for one in of_answers])
    base = (context.baseline.metric(name, domain) for name in ("entropy", "answer_entropy"))
    base_tokens, base_answers = base
    return [domain, base_tokens, tokens, base_answers, answers if answers.n else None]
