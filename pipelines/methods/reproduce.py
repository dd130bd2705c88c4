"""Reproductions: the hallmark of a finished run, measured; seeds are paired, so their common luck cancels."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from components.contract.artifacts import canonical_json
from components.contract.errors import InputError
from components.contract.expressions import Value
from components.measure.intervals import Interval
from components.runtime.system.code import code_version
from pipelines.methods.verdict import Verdict, effect_interval, judge, overall
from pipelines.plan.plan import Plan
from pipelines.recipe.hallmark import ARM, Hallmark, Measure
from pipelines.runs.measured import Measured

DIGITS = 6


@dataclass(frozen=True)
class Finding:
    """One measured quantity of a hallmark."""

    measure: Measure
    arms: Mapping[str, tuple[float, ...]]
    """Arm -> value at each seed."""
    effects: tuple[float, ...] = ()
    """At each seed; empty for a value that does not affect the verdict."""
    effect: Interval | None = None
    verdict: Verdict | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        arms = {arm: [_rounded(value) for value in values] for arm, values in self.arms.items()}
        words = self.measure.words
        if words is None or self.effect is None:
            return {"value": self.measure.value.source, "arms": arms}
        ends = self.effect.to_json()
        ends |= {name: _rounded(ends[name]) for name in ("value", "low", "high") if name in ends}
        return {
            "value": self.measure.value.source,
            "effect": words.effect,
            "direction": words.direction,
            "margin": words.margin,
            "verdict": str(self.verdict),
            "interval": ends,
            "effects": [_rounded(effect) for effect in self.effects],
            "arms": arms,
        }


@dataclass(frozen=True)
class Reproduction:
    """A claim, its measurements and the verdict."""

    slug: str
    hallmark: Hallmark
    findings: tuple[Finding, ...]
    arm_seconds: Mapping[str, float]
    """Arm -> mean seconds of its own stages for one seed."""
    shared_seconds: float
    """Seconds of the stages that all arms share, divided by the number of seeds."""

    @property
    def verdict(self) -> Verdict:
        """Return the verdict on the whole claim."""
        return overall(finding.verdict for finding in self.findings if finding.verdict is not None)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON, without facts specific to the run."""
        words = self.hallmark.words
        return {
            "slug": self.slug,
            "catalogue": words.catalogue,
            "claim": words.claim,
            "verdict": str(self.verdict),
            "seeds": list(self.hallmark.seeds),
            "measures": {f.measure.name: f.to_json() for f in self.findings if f.verdict is not None},
            "also": {f.measure.name: f.to_json() for f in self.findings if f.verdict is None},
            "seconds": {
                "shared": round(self.shared_seconds, 1),
                "arms": {arm: round(seconds, 1) for arm, seconds in self.arm_seconds.items()},
            },
        }


def measure(slug: str, plan: Plan, measured: Measured) -> Reproduction:
    """Return the measurement of the recipe's hallmark in a finished run of `plan`.

    Raises InputError if a stage did not run or did not measure what the hallmark needs.
    """
    hallmark = plan.recipe.hallmark
    if hallmark is None:
        raise InputError(f"recipe {plan.recipe.name!r} has no 'hallmark', so there is nothing to reproduce")
    findings = tuple(_find(found, hallmark, measured) for found in hallmark.measures)
    arm_seconds, shared = _seconds(plan, hallmark, measured)
    return Reproduction(slug, hallmark, findings, arm_seconds, shared)


def record_json(found: Reproduction, plan: Plan, run_seconds: float) -> dict[str, Any]:
    """Return the record of a reproduction: its measurements and provenance."""
    recipe = plan.recipe
    return {
        **found.to_json(),
        "run_seconds": round(run_seconds, 1),
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "code": {key: value for key, value in code_version().items() if key != "lock"},
        "setting": {"digest": setting_digest(plan), "overrides": list(recipe.overrides)},
    }


def setting_digest(plan: Plan) -> str:
    """Return the SHA-256 hex of what a recipe requests (work, seeds, hallmark), without comments, pools and retries."""
    decides = {"stage", "component", "params", "inputs", "seed", "when"}
    jobs = [job.model_dump(mode="json", include=decides) for job in plan.jobs]
    words = plan.recipe.hallmark.words.model_dump(mode="json") if plan.recipe.hallmark else None
    return hashlib.sha256(canonical_json({"jobs": jobs, "hallmark": words})).hexdigest()


def _find(found: Measure, hallmark: Hallmark, measured: Measured) -> Finding:
    arms = {arm: tuple(_value(found, arm, seed, measured) for seed in hallmark.seeds) for arm in hallmark.arms}
    if found.words is None:
        return Finding(found, arms)
    effects = []
    for index in range(len(hallmark.seeds)):
        values: dict[str, Value] = {arm: seeds[index] for arm, seeds in arms.items()}
        effects.append(float(found.effect.evaluate(values.__getitem__)))
    effect = effect_interval(effects)
    verdict = judge(found.words.direction, found.words.margin, effect)
    return Finding(found, arms, tuple(effects), effect, verdict)


def _value(found: Measure, arm: str, seed: int, measured: Measured) -> float:
    sources = found.sources[arm, seed]
    return float(found.value.evaluate(lambda name: measured.value(*sources[name])))


def _seconds(plan: Plan, hallmark: Hallmark, measured: Measured) -> tuple[dict[str, float], float]:
    """Return the mean time per seed of each arm, and of the stages that all arms share."""
    jobs = [(job.labels, measured.seconds(job.stage)) for job in plan.jobs]
    count = len(hallmark.seeds)
    arms = {arm: sum(s for labels, s in jobs if labels.get(ARM) == arm) / count for arm in hallmark.arms}
    return arms, sum(s / count for labels, s in jobs if ARM not in labels)


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
