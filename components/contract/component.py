"""Component: the declaration of a kind of work, cheap to import and the single source of truth for a stage."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from components.contract.artifacts import ArtifactType
from components.contract.backends import Backend
from components.contract.display import Results, Role, Section
from components.contract.endpoints import Api
from components.contract.errors import InputError
from components.contract.job import Resources
from components.contract.memory import MemoryEstimate, Need
from components.contract.operators import Bound
from components.contract.params import Params

__all__ = ["Component", "Params", "Port"]

NAME = re.compile(r"^[a-z][a-z0-9]*([-_][a-z0-9]+)*$")


@dataclass(frozen=True, kw_only=True)
class Port:
    """A typed input or output of a component."""

    type: ArtifactType
    """What flows through the port."""
    doc: str
    """One line for help pages and UIs."""
    optional: bool = False
    """Whether an input may be left unconnected, or an output may be left unwritten."""
    many: bool = False
    """Whether an input takes a list of references."""
    further: bool = False
    """Whether its models stand beside the one that the stage is about: loaded too, and asked by what names the port."""
    apis: frozenset[Api] = frozenset()
    """APIs of endpoints that may stand in for a model; empty where a port needs the weights."""


@dataclass(frozen=True, kw_only=True)
class Component:
    """A kind of work: typed ports, a parameter schema, an image and the function that does it."""

    name: str
    summary: str
    inputs: Mapping[str, Port]
    outputs: Mapping[str, Port]
    params: type[Params]
    run: str
    """Lazy "module:function" target; the function takes one StageContext and returns nothing."""
    backends: frozenset[Backend] = frozenset()
    """Backends that `run` uses: those that its pool or recipe chooses join the fingerprint."""
    image: str = "gpu"
    """Which image of infra/images holds its dependencies: cpu or gpu."""
    preloads: tuple[str, ...] = ()
    """Heavy modules that `run` imports; an engine may import them once and fork."""
    metrics: Mapping[str, str] = field(default_factory=dict)
    """Names of headline metrics with one line each, the telling ones first; `when` and `gate` may use them."""
    role: Role = Role.OTHER
    """What the work is to a recipe."""
    results: Results | None = None
    """How what it measures joins the table at the end of a run."""
    report: tuple[Section, ...] = ()
    """Its sections of a run's report."""
    sources: Callable[[Any], Iterable[Bound | str | Path]] | None = None
    """Given validated parameters, names what else does the work: operators that were chosen (with those that they use,
    at any depth), further modules (str) and data files (Path). They join the fingerprint, so that editing an operator
    reruns only its users. Without it, operators are those that stand in the parameters."""
    verifies: Callable[[Any], Iterable[str]] | None = None
    """Given validated parameters, names the input ports whose rows choose the verifiers that `run` calls: the code of
    these joins the fingerprint."""
    model_sizes: Callable[[Mapping[str, Any]], Any | None] | None = None
    """Given the config.json of an input model, returns the sizes that `memory` takes, or None where it cannot tell."""
    asks: Callable[[Any], Mapping[str, Sequence[str]]] | None = None
    """Given validated parameters: port with `further` models -> the operators that ask them and cannot do without;
    empty for a port that is read where it is connected. A port that is not named is refused where it is connected."""
    memory: Callable[[Any, Any, Resources], MemoryEstimate | None] | None = None
    """Given validated parameters, the sizes of the input model (None: not known) and the job's resources: what a
    process takes in memory, or None where that cannot be said."""
    further_memory: Callable[[str, Any, Any, Resources], Iterable[Need]] | None = None
    """Given a port with `further` models, the sizes of one of them, validated parameters and the job's resources: what
    that model takes in every process, beside `memory`."""
    advice: Callable[[Any, Mapping[str, Sequence[Role]]], Iterable[str]] | None = None
    """Given validated parameters and, by input port, the roles of the components that make the inputs: remarks on the
    choice, one line each. They are shown before a run and change nothing."""

    def __post_init__(self) -> None:
        for name in (self.name, *self.inputs, *self.outputs):
            if not NAME.match(name):
                raise InputError(f"component {self.name!r}: {name!r} is not a name (lower case, digits, '-' or '_')")
        undocumented = [name for name, info in self.params.model_fields.items() if not info.description]
        if undocumented:
            raise InputError(f"component {self.name!r}: parameters without a docstring: {', '.join(undocumented)}")
