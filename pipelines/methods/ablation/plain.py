"""An ablation as plain JSON."""

from __future__ import annotations

from typing import Any

from pipelines.methods.ablation.judge import Ablation, Judged
from pipelines.methods.ablation.parts import MISSING, Part
from pipelines.methods.multiplicity import ERROR
from pipelines.methods.records import decision_json, interval_json
from pipelines.methods.reproduce import rounded
from pipelines.recipe.hallmark_words import METHOD


def ablation_json(found: Ablation) -> dict[str, Any]:
    """Return all effects and verdicts of an ablation."""
    whole, hallmark = found.whole, found.found.hallmark
    comparisons = len(found.parts.found) * len(found.found.claims) * 2
    return {
        "slug": whole.slug,
        "claim": hallmark.words.claim,
        "seeds": list(hallmark.seeds),
        "invalid": whole.invalid,
        "verdicts": {name: str(whole.verdict(name)) for name in whole.claims},
        "whole": {name: _judged(Judged(claim.effects, whole.decisions[name])) for name, claim in whole.claims.items()},
        "spent": _share(found, METHOD),
        "parts": {part.arm: _part(found, part) for part in found.parts.found},
        "cannot_be_reset": dict(found.parts.refused),
        "chance": f"{comparisons} comparisons; chance alone gives at most {2 * ERROR * comparisons:.2g} false verdicts",
    }


def _part(found: Ablation, part: Part) -> dict[str, Any]:
    claims = {}
    for name, without in found.without[part.arm].items():
        claims[name] = {
            "verdict": str(found.verdict(part, name)),
            **_judged(without.claim),
            "carries": found.carries(part, name),
            "carried": _judged(without.carried) if without.carried else None,
        }
    budget = found.found.budget
    return {
        "names": list(part.names),
        "instead": _instead(part),
        "claims": claims,
        "budget": None if budget is None else list(budget.arms[part.arm]),
        "spent": _share(found, part.arm),
        "steps": found.steps.get(part.arm),
    }


def _share(found: Ablation, arm: str) -> float | None:
    """Return what an arm spends as a share of the baseline's."""
    share = found.share_spent(arm)
    return None if share is None else rounded(share)


def _instead(part: Part) -> str:
    """Return what stands in the place of a part: operators, with settings in which they differ from the method's."""
    return "; ".join(_named(value, part.own.get(key)) for key, value in part.settings.items())


def _named(value: Any, own: Any) -> str:
    if value is MISSING:
        return "not set"
    if isinstance(value, list):
        known = {one.get("name"): one for one in own if isinstance(one, dict)} if isinstance(own, list) else {}
        shown = (_named(one, known.get(one.get("name")) if isinstance(one, dict) else None) for one in value)
        return " + ".join(shown) or "none"
    if not isinstance(value, dict) or "name" not in value:
        return str(value)
    if not isinstance(own, dict) or own.get("name") != value["name"]:
        return str(value["name"])
    settings = [f"{key} {setting}" for key, setting in value.items() if own.get(key, MISSING) != setting]
    return f"{value['name']}({', '.join(settings)})" if settings else str(value["name"])


def _judged(found: Judged) -> dict[str, Any]:
    interval = found.interval
    return {
        "effects": list(found.effects),
        "interval": interval_json(interval.value, interval.low, interval.high),
        "decision": decision_json(found.decision),
    }
