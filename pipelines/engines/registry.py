"""Engines by name: those of this tree, and those that other packages register as `posttrain.engines`."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from components.contract.errors import InputError, PosttrainError
from components.contract.names import Registry
from components.contract.plug_ins import plug_ins

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pipelines.engines.engine import Engine

GROUP = "posttrain.engines"
DEFAULT = "local"
OWN = {
    "local": "pipelines.engines.local.engine:LocalEngine",
    "airflow": "pipelines.engines.airflow.engine:AirflowEngine",
    "kubeflow": "pipelines.engines.kubeflow.engine:KubeflowEngine",
}


class EngineNames:
    """The names of all engines as argparse choices; packages are searched only on demand."""

    def __iter__(self) -> Iterator[str]:
        return iter(engine_names())

    def __contains__(self, name: object) -> bool:
        return name in OWN or name in engine_names()


@cache
def engines() -> Registry:
    """Return the registry of all engines, without importing any."""
    registry = Registry("engine")
    for name, target in OWN.items():
        registry.add(name, target, origin="pipelines/engines/registry.py")
    for point in plug_ins(GROUP):
        origin = f"package {point.dist.name} {point.dist.version}" if point.dist else f"entry point {point.name}"
        registry.add(point.name, point.value, origin=origin)
    return registry


def engine_names() -> list[str]:
    """Return all names, ours first."""
    return [*OWN, *(name for name in engines().names() if name not in OWN)]


def find_engine(name: str) -> Engine:
    """Return an engine; raise UnknownName with near misses, or InputError for a target that is not an engine."""
    from pipelines.engines.engine import Engine

    found = engines().get(name)
    try:
        engine = found() if isinstance(found, type) else found
    except TypeError as error:
        raise InputError(f"engine {name!r} ({engines().entry(name).origin}): {error}") from error
    if not isinstance(engine, Engine) or engine.name != name:
        entry = engines().entry(name)
        raise InputError(f"engine {name!r} ({entry.origin}): {entry.target} is not an Engine of this name")
    return engine


def engines_with(capability: str) -> list[str]:
    """Return the names of the engines with a capability; an engine that cannot be loaded has none."""
    able = []
    for name in engine_names():
        try:
            if getattr(find_engine(name).capabilities, capability):
                able.append(name)
        except PosttrainError:
            continue
    return able
