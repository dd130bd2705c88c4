"""Component: the declaration of a kind of work, cheap to import and the single source of truth for a stage."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from components.contract.alarms import Alarm, check_alarms
from components.contract.artifacts import ArtifactType
from components.contract.backends import Backend, Backends
from components.contract.display import Results, Role, Section
from components.contract.endpoints import Api, endpoint_name
from components.contract.errors import InputError
from components.contract.heads import LANGUAGE, Head
from components.contract.job import Resources
from components.contract.memory import MemoryEstimate, Need
from components.contract.operators import Bound
from components.contract.params import Params
from components.contract.sharding import Sharding

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
    """Whether its models are auxiliary to the stage's main model: also loaded, and queried by operators that name the
    port."""
    apis: frozenset[Api] = frozenset()
    """Endpoint APIs that may replace a model; empty where the port needs the weights."""
    heads: frozenset[Head] = LANGUAGE
    """Of models: what an input takes, and what an output may be; where no head is in both, they do not fit."""


@dataclass(frozen=True)
class Given:
    """A model that a recipe takes from outside the run, as far as it is known before a run."""

    uri: str
    folder: Path | None = None
    """Where its files are on this machine, if they are."""

    @property
    def is_endpoint(self) -> bool:
        """Whether it is a server in the place of a model."""
        return endpoint_name(self.uri) is not None


@dataclass(frozen=True, kw_only=True)
class Component:
    """A kind of work: typed ports, a parameter schema, an image and the function that runs it."""

    name: str
    summary: str
    inputs: Mapping[str, Port]
    outputs: Mapping[str, Port]
    params: type[Params]
    run: str
    """Lazy "module:function" target; the function takes one StageContext and returns nothing."""
    backends: frozenset[Backend] = frozenset()
    """Backends that `run` uses: the pool's or recipe's choice of these joins the fingerprint."""
    image: str = "gpu"
    """Whether its work at full size wants GPUs: cpu or gpu, for people. Pods take the image of infra/images that their
    pool's GPUs call for: the CPU image holds what every component needs without GPUs."""
    preloads: tuple[str, ...] = ()
    """Heavy modules that `run` imports; an engine may import them once and fork."""
    metrics: Mapping[str, str] = field(default_factory=dict)
    """Names of headline metrics with one line each, the most informative first; `when` and `gate` may use them."""
    metrics_of: Callable[[Any], Mapping[str, str]] | None = None
    """Given validated parameters: further headline metrics, which the chosen operators give."""
    unmeasured: Callable[[Any, str], str | None] | None = None
    """Given validated parameters and the name of a declared metric, why a stage with these does not measure it."""
    undone: Mapping[str, str] = field(default_factory=dict)
    """Counts among `metrics` of what a stage left undone, such as skipped updates, with words for each: people are told
    of those above 0, also where the stage ended well."""
    choices: Mapping[str, Callable[[], Sequence[str]]] = field(default_factory=dict)
    """Dotted parameter -> its possible values, where its type does not list them; forms show them."""
    role: Role = Role.OTHER
    """Role of the work in a recipe."""
    results: Results | None = None
    """How its measurements appear in the table at the end of a run."""
    report: tuple[Section, ...] = ()
    """Its sections in a run's report."""
    alarms: tuple[Alarm, ...] = ()
    """Signs in its history that a training has gone wrong, the likeliest cause first."""
    sources: Callable[[Any], Iterable[Bound | str | Path]] | None = None
    """Given validated parameters, names what else the result depends on: the chosen operators (and the operators they
    use, at any depth), further modules (str) and data files (Path). They join the fingerprint, so that editing an
    operator reruns only its users. Without it, the operators named in the parameters join."""
    verifies: Callable[[Any], Iterable[str]] | None = None
    """Given validated parameters, names the input ports whose rows choose the verifiers that `run` calls: the
    verifiers' code joins the fingerprint."""
    row_verifiers: Callable[[Any], Collection[str] | None] | None = None
    """Given validated parameters, names the verifiers that rows of its datasets may name, or None if it cannot tell."""
    refuses_rows: Callable[[Any, Mapping[str, Collection[str]]], Iterable[str]] | None = None
    """Given validated parameters and, by input port, the verifiers of its rows where they are known: what does not fit,
    one line each."""
    refuses_backends: Callable[[Any, Backends], Iterable[str]] | None = None
    """Given validated parameters, and what generates and trains on the stage's pool: what does not fit, one line
    each."""
    refuses_inputs: Callable[[Any, Collection[str], Backends], Iterable[str]] | None = None
    """Given validated parameters, the connected input ports, and what generates and trains on the stage's pool: what
    does not fit, one line each."""
    refuses_models: Callable[[Any, Mapping[str, Sequence[Given | None]]], Iterable[str]] | None = None
    """Given validated parameters and, by input port, the models from outside the run, None for each that the run makes:
    what does not fit, one line each."""
    model_sizes: Callable[[Mapping[str, Any]], Any | None] | None = None
    """Given the config.json of an input model, returns the sizes that `memory` takes, or None if they are unknown."""
    asks: Callable[[Any], Mapping[str, Sequence[str]]] | None = None
    """Given validated parameters: optional port -> the operators that require it; empty for a port that is used only if
    connected. A port with `further` models that is not listed must not be connected."""
    heads: Callable[[Any], Mapping[str, frozenset[Head]]] | None = None
    """Given validated parameters: input port -> the heads that its models must have, where operators take fewer than
    the port does. An endpoint is a language model."""
    memory: Callable[[Any, Any, Resources], MemoryEstimate | None] | None = None
    """Given validated parameters, the sizes of the input model (None: unknown) and the job's resources: the memory of
    one process, or None if it cannot be estimated."""
    further_memory: Callable[[str, Any, Any, Resources], Iterable[Need]] | None = None
    """Given a port with `further` models, the sizes of one of them, validated parameters and the job's resources: the
    memory of that model in every process, in addition to `memory`."""
    on_pool: Callable[[Any, Resources], Any] | None = None
    """Given validated parameters and the job's resources: the parameters with the defaults that depend on the pool. The
    fingerprint has these. Applied again, it changes nothing."""
    forks: str | None = None
    """Lazy "module:function" target, for a component whose checkpoints are of steps, so that it can be forked: given
    the parameters that a checkpoint was made with, other ones, and what the checkpoint holds (forking.py), it yields
    why it cannot go on with these, one line each."""
    rolls_back: bool = False
    """Whether its run ends at `StageContext.ends_at`, so that an alarm can return it to a kept checkpoint."""
    cells: Mapping[str, str] = field(default_factory=dict)
    """Parameter -> input port that takes many: the recipe fills the parameter with a list of {source, stage, labels},
    where each of the port's inputs comes from and its labels in the matrix, unless it is given."""
    advice: Callable[[Any, Mapping[str, Sequence[Role]]], Iterable[str]] | None = None
    """Given validated parameters and, by input port, the roles of the components that make the inputs: advice on the
    settings, one line each. It is shown before a run and changes nothing."""
    audited_by: str = ""
    """The component that audits a stage of it before it runs, given the same parameters and inputs: where a recipe says
    `integrity`."""
    sharding: Sharding | None = None
    """How a stage of it is divided among shards, if it can be."""
    shard_outputs: Mapping[str, Port] = field(default_factory=dict)
    """What a shard makes, in the place of `outputs`."""
    outputs_of: Callable[[Any], Collection[str]] | None = None
    """Given validated parameters: which of `outputs` a stage with these has; without it, all."""

    def formed(self, params: Params | None) -> Component:
        """Return the component as it is with validated parameters: some have fewer outputs, a shard has its own."""
        if self.outputs_of is not None and params is not None:
            named = self.outputs_of(params)
            return replace(self, outputs={port: info for port, info in self.outputs.items() if port in named})
        if self.sharding is None or params is None or not self.sharding.is_shard(params):
            return self
        return replace(self, outputs=self.shard_outputs, sharding=None)

    def known_metrics(self, params: Params | None) -> Mapping[str, str]:
        """Return the headline metrics of a stage with these parameters; of unreadable ones, those of every stage."""
        return {**self.metrics, **(self.metrics_of(params) if self.metrics_of and params is not None else {})}

    def lacks(self, params: Params | None, metric: str) -> str | None:
        """Return why a stage with these parameters does not measure a declared metric; None if it does."""
        return self.unmeasured(params, metric) if self.unmeasured and params is not None else None

    def settled(self, params: Params, resources: Resources) -> Params:
        """Return validated parameters with the defaults that depend on the pool."""
        found: Params = self.on_pool(params, resources) if self.on_pool else params
        return found

    def __post_init__(self) -> None:
        for name in (self.name, *self.inputs, *self.outputs, *self.shard_outputs):
            if not NAME.match(name):
                raise InputError(f"component {self.name!r}: {name!r} is not a name (lower case, digits, '-' or '_')")
        undocumented = [name for name, info in self.params.model_fields.items() if not info.description]
        if undocumented:
            raise InputError(f"component {self.name!r}: parameters without a docstring: {', '.join(undocumented)}")
        if strange := self.undone.keys() - self.metrics.keys():
            raise InputError(f"component {self.name!r}: undone names no metric of it: {', '.join(sorted(strange))}")
        check_alarms(self.name, self.alarms)
