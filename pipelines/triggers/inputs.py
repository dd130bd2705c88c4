"""What a recipe reads from outside the store: what is watched where its schedule names nothing."""

from __future__ import annotations

from collections.abc import Iterator

from components.contract.job import UriRef, alternatives
from pipelines.recipe.operators import configs_with_paths
from pipelines.recipe.recipe import Recipe
from pipelines.recipe.schedule.section import Watched
from pipelines.recipe.stage import Stage


def inputs_of(recipe: Recipe) -> tuple[Watched, ...]:
    """Return the files, objects and registered models that stages of a recipe read, each once."""
    found = (text for stage in recipe.stages for text in _read_by(stage))
    return tuple(dict.fromkeys(filter(None, map(_watched, found))))


def _read_by(stage: Stage) -> Iterator[str]:
    for reference in alternatives(reference for port in stage.inputs.values() for reference in port):
        if isinstance(reference, UriRef):
            yield reference.uri
    for _, config in configs_with_paths(stage.config):
        for key in config.paths:
            yield str(getattr(config, key))


def _watched(uri: str) -> Watched | None:
    """Return what can change behind an address; None for what cannot be watched, or never changes."""
    if uri.startswith("s3://"):
        return Watched("s3", uri)
    if uri.startswith("models:"):
        return Watched("model", uri) if "@" in uri else None
    path = uri.removeprefix("file:").removeprefix("//")
    return Watched("path", path) if path.startswith("/") else None
