"""Digests of what a record speaks of: the work that a recipe requests, and the code of its operators."""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from components.contract.artifacts import canonical_json
from components.contract.operators import Bound, operators_of, with_used
from components.contract.registry import slots
from components.runtime.closure.source import read_source
from pipelines.plan.plan import Plan
from pipelines.recipe.hallmark_words import TuningWords
from pipelines.recipe.recipe import Recipe


def setting_digest(plan: Plan) -> str:
    """Return the SHA-256 hex of what a recipe requests (work, seeds, hallmark), without comments, pools and retries."""
    hallmark = plan.recipe.hallmark
    words = hallmark.words.model_dump(mode="json", exclude={"tuning"}) if hallmark else None
    return _digest({"jobs": _work(plan), "hallmark": words})


def tuning_digest(plan: Plan, words: TuningWords) -> str:
    """Return the SHA-256 hex of what a tuning requests: the work of `plan`, of its first value, and its words."""
    return _digest({"jobs": _work(plan), "tuning": words.model_dump(mode="json")})


def operator_digests(recipe: Recipe) -> dict[str, str]:
    """Return "slot name" of every operator that the recipe's stages use -> digest of the code of its modules."""
    found: dict[str, str] = {}
    for stage in recipe.stages:
        component = stage.component
        sources = component.sources(stage.config) if component.sources else operators_of(stage.config, component.name)
        for bound in with_used(source for source in sources if isinstance(source, Bound)):
            key = f"{bound.slot.name} {bound.name}"
            if key not in found:
                found[key] = hashlib.sha256("".join(_module_digests(bound.modules)).encode()).hexdigest()[:16]
    return dict(sorted(found.items()))


def changed_operators(recipe: Recipe, then: Mapping[str, str]) -> list[str]:
    """Return "slot name" of the operators whose code is not that of earlier digests, or that came or went.

    A slot that was declared since counts only where it is not at its default, which does what the code did before there
    was the slot.
    """
    now = operator_digests(recipe)
    later = {f"{slot.name} {slot.default}" for slot in slots().values()} - then.keys()
    return sorted(name for name in (now.keys() | then.keys()) - later if now.get(name) != then.get(name))


def _work(plan: Plan) -> list[Any]:
    decides = {"stage", "component", "params", "inputs", "seed", "when"}
    return [job.model_dump(mode="json", include=decides) for job in plan.jobs]


def _digest(found: dict[str, Any]) -> str:
    return hashlib.sha256(canonical_json(found)).hexdigest()


def _module_digests(modules: Sequence[str]) -> Iterator[str]:
    for module in modules:
        found = importlib.util.find_spec(module)
        if found is not None and found.origin is not None:
            is_package = found.submodule_search_locations is not None
            yield read_source(Path(found.origin), module, is_package).digest
