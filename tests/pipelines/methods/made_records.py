"""Records of the protocol made up of effects, with the decisions that they lead to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from components.measure.intervals import seed_interval
from pipelines.methods.looks import plan_looks
from pipelines.methods.methods import Method, find_method
from pipelines.methods.records import decision_json
from pipelines.methods.verdict import decide

LOOKS = (5, 8, 12, 20)
GAIN = (0.05, 0.06, 0.055, 0.048, 0.062)
NOISE = (0.05, -0.06, 0.02, -0.01, 0.0)
NEAR_ZERO = (0.001, -0.001, 0.002, 0.0, -0.002)


def effect(effects: Sequence[float], base: float = 0.5) -> dict[str, Any]:
    """Return a quantity with these effects of the method over a baseline at `base`."""
    found = seed_interval(effects)
    return {
        "value": "evaluate.pass_at_1_sums",
        "effect": "method - baseline",
        "interval": {"value": found.value, "low": found.low, "high": found.high},
        "effects": list(effects),
        "arms": {"baseline": [base] * len(effects), "method": [base + one for one in effects]},
    }


def claim(effects: Sequence[float], direction: str = "higher", floor: float = 0.02) -> dict[str, Any]:
    """Return a primary measure."""
    words = {"name": "pass_at_1", "direction": direction, "floor": floor, "floor_from": "twice the noise"}
    return words | effect(effects) | {"decision": decision_json(decide(direction, floor, effects, plan_looks(LOOKS)))}


def record(slug: str, **effects: Sequence[float]) -> dict[str, Any]:
    """Return the record of a method whose claims, by part, had these effects."""
    claims = {part: claim(values) for part, values in effects.items()}
    seeds = max(len(values) for values in effects.values())
    decided = {part: entry["decision"] for part, entry in claims.items()}
    return {
        "format": 2,
        "slug": slug,
        "catalogue": 82,
        "claim": f"{slug} gains",
        "verdicts": {part: found["verdict"] if found else "undecided" for part, found in decided.items()},
        "invalid": None,
        "seeds": list(range(seeds)),
        "looks": list(LOOKS),
        "claims": claims,
        "preconditions": {"has_room": effect([0.4] * seeds) | {"at_most": 0.9, "mean": 0.5, "holds": True}},
        "active": {},
        "secondary": {"length": effect([2.0] * seeds, 17.0)},
        "also": {"entropy": {"value": "rl.entropy", "arms": {"baseline": [0.1] * seeds, "method": [0.2] * seeds}}},
        "budget": {"value": "rl.num_tokens", "arms": {"baseline": [12000] * seeds, "method": [12300] * seeds}},
        "seconds": {"shared": 4.0, "arms": {"baseline": 6.0, "method": 6.5}},
        "run_seconds": 31.0,
        "date": "2026-11-23",
        "code": {"version": "0.1", "commit": "abc"},
        "operators": {},
        "setting": {"digest": "ab" * 32, "overrides": ["rl_steps=3", f"matrix.seed={list(range(seeds))}"]},
    }


def method(slug: str, found: dict[str, Any] | None) -> Method:
    """Return a shipped method with this record in the place of its own."""
    return replace(find_method(slug), result=found)


def methods() -> list[Method]:
    """Return methods with one record of each kind."""
    absent = record("etr", outcome=NEAR_ZERO) | {"verdicts": {"outcome": "precondition absent"}}
    absent["preconditions"]["has_room"] |= {"mean": 0.95, "holds": False}
    unequal = record("dars", outcome=GAIN) | {"verdicts": {"outcome": "invalid"}, "invalid": "method spends more"}
    return [
        method("dars", unequal),
        method("etr", absent),
        method("canon", record("canon", mechanism=GAIN, outcome=[-one for one in GAIN])),
        method("rover", record("rover", mechanism=GAIN, outcome=NEAR_ZERO)),
        method("recap", record("recap", outcome=[*NOISE] * 4)),
        method("luspo", {"verdict": "not seen", "claim": "an earlier one", "seeds": [0, 1, 2], "date": "2026-11-21"}),
        method("rloo", None),
    ]
