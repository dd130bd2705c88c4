"""The fitted mixture: what each mixture reached, how well a surface predicts it, and the shares where it is highest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from components.contract.errors import InputError
from components.measure.intervals import Floats
from components.tabulate.arms import Arm
from components.tabulate.params import Fit
from components.tabulate.surrogate import fit_surface, held_out_predictions, highest_point, rank_correlation


@dataclass(frozen=True)
class FittedMixture:
    """The best mixture by the surface, and how far to trust it."""

    shares: dict[str, float]
    facts: dict[str, Any]
    """For the table: points, predictions, and rank correlations of mixtures left out."""


def fit_mixture(arms: Sequence[Arm], fit: Fit) -> FittedMixture:
    """Fit a surface to the arms' objectives and return its highest point, beside the skill of both kinds of surfaces.

    Raises InputError where too few mixtures were measured, or a domain of the objective was not.
    """
    reached: dict[str, list[float]] = {}
    for arm in arms:
        if fit.axis in arm.labels:
            reached.setdefault(str(arm.labels[fit.axis]), []).append(_objective(arm, fit.objective))
    domains, labels = fit.domains, list(reached)
    if len(labels) < len(domains) + 2:
        raise InputError(
            f"fit: {len(labels)} mixtures of {len(domains)} domains were measured; a curved surface takes "
            f"{len(domains) + 2} or more"
        )
    weights = np.array([_shares(fit.mixtures[label], domains) for label in labels])
    values = np.array([sum(reached[label]) / len(reached[label]) for label in labels])
    surface = fit_surface(weights, values, quadratic=fit.surface == "quadratic", ridge=fit.ridge)
    best = highest_point(surface, len(domains))
    held_out = {
        name: held_out_predictions(weights, values, quadratic=name == "quadratic", ridge=fit.ridge)
        for name in ("quadratic", "linear")
    }
    points = [
        {
            "mixture": label,
            "shares": dict(zip(domains, map(float, weights[row]), strict=True)),
            "value": float(values[row]),
            "held_out": float(held_out[fit.surface][row]),
        }
        for row, label in enumerate(labels)
    ]
    facts = {
        "surface": fit.surface,
        "ridge": surface.ridge,
        "predicted": float(surface(best[None])[0]),
        "predicted_uniform": float(surface(np.full((1, len(domains)), 1 / len(domains)))[0]),
        "best_measured": float(values.max()),
        "rank_correlation": {name: rank_correlation(found, values) for name, found in held_out.items()},
        "points": points,
    }
    return FittedMixture(dict(zip(domains, map(float, best), strict=True)), facts)


def _objective(arm: Arm, weights: Mapping[str, float]) -> float:
    """Return an arm's weighted mean pass@1 over domains, itself the mean over its repeats."""
    totals = []
    for repeat, ledger in arm.ledgers.items():
        wanted = weights or dict.fromkeys(ledger, 1.0)
        means = {domain: arm.values(domain, repeat) for domain in wanted}
        if missing := sorted(domain for domain, found in means.items() if not found):
            raise InputError(f"fit: arm {arm.name!r} was not measured on {', '.join(map(repr, missing))}")
        mean = {domain: sum(found.values()) / len(found) for domain, found in means.items()}
        totals.append(sum(weight * mean[domain] for domain, weight in wanted.items()) / sum(wanted.values()))
    return sum(totals) / len(totals)


def _shares(given: Mapping[str, float], domains: Sequence[str]) -> Floats:
    found = np.array([given.get(domain, 0.0) for domain in domains])
    return found / found.sum()
