"""Estimated memory of a recipe's stages before anything runs, and which stages do not fit their pools."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.contract.artifacts import ArtifactType
from components.contract.job import StageRef, UriRef, alternatives
from components.contract.memory import GIB, SPARED, MemoryEstimate, MemoryKind, Need
from pipelines.recipe.pools import Pool
from pipelines.recipe.recipe import Recipe
from pipelines.recipe.stage import Stage

MODELS = (ArtifactType.MODEL, ArtifactType.CHECKPOINTS)
FITS = "memory fits"
"""Where a recipe keeps its own."""


@dataclass(frozen=True)
class Fit:
    """A stage's memory compared with its pool's."""

    stage: str
    pool: str
    estimate: MemoryEstimate
    limit_gib: float | None
    """None if the pool does not set it."""
    where: MemoryKind

    @property
    def need_gib(self) -> float:
        """Return the peak memory needed, on one GPU or on a node."""
        return self.estimate.bytes(self.where) / GIB

    @property
    def usable_gib(self) -> float | None:
        """Return how much of the pool's memory an estimate may use."""
        return None if self.limit_gib is None else (1 - SPARED) * self.limit_gib

    @property
    def fits(self) -> bool:
        """Return whether the estimate leaves some of the pool's memory free, or the pool's memory is unknown."""
        return self.usable_gib is None or self.need_gib <= self.usable_gib

    @property
    def warning(self) -> str:
        """Return what does not fit, in words, and which settings to change."""
        assert self.limit_gib is not None and self.usable_gib is not None
        close = f", of which {SPARED:.0%} should stay free" if self.need_gib <= self.limit_gib else ""
        return (
            f"needs about {self.need_gib:.3g} GiB {self.where} of pool {self.pool}{self.estimate.when(self.where)}, "
            f"which has {self.limit_gib:g}{close} ({self.estimate.parts_in_words(self.where)}); "
            f"{self.estimate.advice(self.where, self.usable_gib * GIB)}"
        )


def memory_fits(recipe: Recipe) -> dict[str, list[Fit]]:
    """Return stage -> memory estimates, where known: one entry, or two if a host serves GPUs."""
    known = vars(recipe)  # cached: a plan calls this several times, and hundreds of stages are slow
    if FITS not in known:
        known[FITS] = _estimated(recipe)
    fits: dict[str, list[Fit]] = known[FITS]
    return fits


def _estimated(recipe: Recipe) -> dict[str, list[Fit]]:
    models: dict[str, Any] = {}
    found: dict[str, list[Fit]] = {}
    for stage in recipe.stages:
        model = next((known for known in _input_models(stage, models) if known is not None), None)
        models[stage.name] = model
        if stage.component.memory is None:
            continue
        pool = recipe.pools[stage.pool]
        resources = pool.resources(stage.pool, stage.backend)
        config = stage.component.settled(stage.config, resources)
        estimate = stage.component.memory(config, _sizes(stage, model), resources)
        if estimate is not None:
            estimate = estimate.beside(_further_needs(stage, models, recipe))
            models[stage.name] = estimate.model
            found[stage.name] = [*_fits(stage, pool, estimate)]
    return found


def stages_of_unknown_models(recipe: Recipe) -> list[str]:
    """Return the stages whose memory could be estimated if their model were known."""
    known = memory_fits(recipe)
    return [
        stage.name
        for stage in recipe.stages
        if stage.component.memory and stage.name not in known and any(True for _ in _input_models(stage, {}))
    ]


def memory_warnings(recipe: Recipe) -> Iterator[tuple[str, str]]:
    """Yield (stage, warning) for every stage that does not fit its pool, or whose model its ranks cannot part."""
    for name, fits in memory_fits(recipe).items():
        if refusal := fits[0].estimate.refusal:
            yield name, refusal
        yield from ((name, fit.warning) for fit in fits if not fit.fits)


def _fits(stage: Stage, pool: Pool, estimate: MemoryEstimate) -> Iterator[Fit]:
    if not pool.gpus:
        yield Fit(stage.name, stage.pool, estimate, pool.memory_gib, MemoryKind.NODE)
        return
    yield Fit(stage.name, stage.pool, estimate, pool.gpu_memory_gib, MemoryKind.GPU)
    yield Fit(stage.name, stage.pool, estimate, pool.memory_gib, MemoryKind.HOST)


def _input_models(stage: Stage, models: dict[str, Any]) -> Iterator[Any]:
    for port, references in stage.inputs.items():
        if stage.component.inputs[port].type not in MODELS or stage.component.inputs[port].further:
            continue
        for reference in alternatives(references):
            yield models.get(reference.stage) if isinstance(reference, StageRef) else _outside(reference)


def _further_needs(stage: Stage, models: dict[str, Any], recipe: Recipe) -> Iterator[Need]:
    """Yield the memory of the models beside the stage's own, where their sizes are known; endpoints need none."""
    component, pool = stage.component, recipe.pools[stage.pool]
    if component.further_memory is None:
        return
    resources = pool.resources(stage.pool, stage.backend)
    for port, references in stage.inputs.items():
        for reference in alternatives(references) if component.inputs[port].further else ():
            known = models.get(reference.stage) if isinstance(reference, StageRef) else _outside(reference)
            if (sizes := _sizes(stage, known)) is not None:
                yield from component.further_memory(port, sizes, stage.config, resources)


def _sizes(stage: Stage, model: Any) -> Any:
    """Return the sizes of a stage's model: from the stage before it, or from a config.json."""
    if not isinstance(model, Mapping):
        return model
    return stage.component.model_sizes(model) if stage.component.model_sizes else None


def _outside(reference: UriRef) -> Mapping[str, Any] | None:
    """Return the config.json of a local model folder, or of a cached Hugging Face model."""
    path = model_file(reference, "config.json")
    if path is None:
        return None
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        return None
    return config if isinstance(config, Mapping) else None


def model_file(reference: UriRef, name: str) -> Path | None:
    """Return a file of a local model folder, or of a cached Hugging Face model; None if it is not there."""
    scheme, _, rest = reference.uri.partition(":")
    path = _cached(rest, name) if scheme == "hf" else Path(rest if scheme == "file" else reference.uri) / name
    return path if path is not None and path.is_file() else None


def _cached(model: str, name: str) -> Path | None:
    try:
        from huggingface_hub import try_to_load_from_cache
    except ImportError:
        return None
    found = try_to_load_from_cache(model.strip("/"), name)
    return Path(found) if isinstance(found, str) else None
