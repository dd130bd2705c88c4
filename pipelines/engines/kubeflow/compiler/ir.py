"""Kubeflow pipelines built from data. The only file that uses undocumented parts of kfp, whose version is pinned.

A container component is its own ComponentSpec, and a pipeline a function with a generated signature.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import yaml
from google.protobuf import json_format
from kfp import dsl
from kfp.dsl import container_component_class, placeholders, structures
from kfp.dsl.types import type_utils

from components.contract.artifacts import ArtifactType
from pipelines.engines.kubeflow.compiler.form import REQUIRED, Form
from pipelines.engines.kubeflow.compiler.lifetime import Lifetime
from pipelines.engines.kubeflow.compiler.sharing import share
from pipelines.engines.kubeflow.compiler.size import workflow_bytes
from pipelines.engines.kubeflow.executor import METRICS

SCHEMAS = {
    ArtifactType.DATASET: "system.Dataset",
    ArtifactType.MODEL: "system.Model",
    ArtifactType.METRICS: METRICS,
}
"""Kinds of artifacts that Kubeflow shows as what they are; the others are artifacts to it."""
ANY = "system.Artifact"
SCHEMA_VERSION = "0.0.1"
_TYPES = {str: "String", int: "Integer", float: "Float", bool: "Boolean", list: "List", dict: "Dict"}
_FINAL_STATUS = "PipelineTaskFinalStatus"

Argument: TypeAlias = str | placeholders.Placeholder


@dataclass(frozen=True)
class Container:
    """A container of a pipeline: its command, inputs and outputs."""

    name: str
    image: str
    command: Sequence[str]
    arguments: Sequence[Argument]
    parameters: Form = field(default_factory=dict)
    inputs: Mapping[str, ArtifactType] = field(default_factory=dict)
    outputs: Mapping[str, ArtifactType | str] = field(default_factory=dict)
    """Name -> type of ours, or Kubeflow's own for what only its pages show."""
    results: Sequence[str] = ()
    """Names of texts that other tasks may take as inputs."""
    env: Mapping[str, str] = field(default_factory=dict)
    status_input: str | None = None
    """Name of the input with the other tasks' outcome, for the last task."""

    def component(self) -> Any:
        """Return it as a component that can be called in a pipeline's body."""
        ins = {name: _parameter(kind, default) for name, (kind, default) in self.parameters.items()}
        ins |= {name: structures.InputSpec(_artifact(kind)) for name, kind in self.inputs.items()}
        if self.status_input:
            ins[self.status_input] = structures.InputSpec(_FINAL_STATUS, optional=True)
        outs = {name: structures.OutputSpec(_artifact(kind)) for name, kind in self.outputs.items()}
        outs |= {name: structures.OutputSpec("String") for name in self.results}
        container = structures.ContainerSpecImplementation(
            image=self.image, command=list(self.command), args=list(self.arguments), env=dict(self.env) or None
        )
        spec = structures.ComponentSpec(
            name=self.name,
            implementation=structures.Implementation(container=container),
            inputs=ins or None,
            outputs=outs or None,
        )
        return container_component_class.ContainerComponent(spec, None)


def value_of(name: str) -> Argument:
    """Return the argument that becomes the value of an input."""
    return placeholders.InputValuePlaceholder(name)


def path_of(output: str) -> Argument:
    """Return the argument that becomes the file which an output artifact is."""
    return placeholders.OutputPathPlaceholder(output)


def result_path(name: str) -> Argument:
    """Return the argument that becomes the file into which a result is written."""
    return placeholders.OutputParameterPlaceholder(name)


def compile_pipeline(
    name: str, description: str, form: Form, body: Callable[..., None], lifetime: Lifetime
) -> tuple[str, int]:
    """Return the pipeline that `body` draws when it is called with a channel for every parameter, as YAML.

    Beside it, the bytes of the workflow that a run of it becomes.
    """

    form = dict(sorted(form.items(), key=lambda item: item[1][1] is not REQUIRED))  # as Python wants them

    def drawn(*channels: Any) -> None:
        body(**dict(zip(form, channels, strict=True)))

    drawn.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(
                word,
                inspect.Parameter.POSITIONAL_OR_KEYWORD,
                annotation=kind,
                default=inspect.Parameter.empty if default is REQUIRED else default,
            )
            for word, (kind, default) in form.items()
        ]
    )
    drawn.__name__ = name.replace("-", "_")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        config = dsl.PipelineConfig(ttl_seconds_after_finished=lifetime.keep, active_deadline_seconds=lifetime.deadline)
        pipeline = dsl.pipeline(name=name, description=description or None, pipeline_config=config)(drawn)
    return _written(name, description, pipeline)


def _written(name: str, description: str, pipeline: Any) -> tuple[str, int]:
    """Return what kfp's compiler writes, by YAML's writer in C: its own takes seconds for hundreds of stages."""
    documents = share(*(json_format.MessageToDict(spec) for spec in (pipeline.pipeline_spec, pipeline.platform_spec)))
    head = f"# PIPELINE DEFINITION\n# Name: {name}\n# Description: {' '.join(description.split())}\n"
    body: str = yaml.dump_all(documents, Dumper=yaml.CSafeDumper, sort_keys=True)
    return head + body, workflow_bytes(*documents)


def _parameter(kind: type, default: Any) -> structures.InputSpec:
    if default is REQUIRED:
        return structures.InputSpec(_TYPES[kind])
    return structures.InputSpec(_TYPES[kind], default=default, optional=True)


def _artifact(kind: ArtifactType | str) -> str:
    title = SCHEMAS.get(kind, ANY) if isinstance(kind, ArtifactType) else kind
    name: str = type_utils.create_bundled_artifact_type(title, SCHEMA_VERSION)
    return name
