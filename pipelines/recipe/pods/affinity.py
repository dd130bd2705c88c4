"""Affinity of a pool's pods, with the fields of Kubernetes: which nodes they need or prefer, and which other pods."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from pipelines.recipe.pods.values import Frozen, Label, LabelValue, ObjectName

Weight = Annotated[int, Field(strict=True, ge=1, le=100)]


class _Camel(BaseModel):
    """Kubernetes' own spelling, so that examples from its documentation can be pasted."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, serialize_by_alias=True)


class _Requirement(_Camel):
    key: Label
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: list[LabelValue] | None = None

    @model_validator(mode="after")
    def _values_fit(self) -> _Requirement:
        if self.operator.endswith(("Exists", "Exist")) == bool(self.values):
            raise ValueError("an expression has 'values' if its operator is In or NotIn, and none otherwise")
        return self


class _NodeRequirement(_Camel):
    key: Label
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    values: list[LabelValue] | None = None

    @model_validator(mode="after")
    def _values_fit(self) -> _NodeRequirement:
        if self.operator.endswith(("Exists", "Exist")) == bool(self.values):
            raise ValueError("an expression has 'values' unless its operator is Exists or DoesNotExist")
        if self.operator in ("Gt", "Lt") and not (self.values and len(self.values) == 1 and self.values[0].isdigit()):
            raise ValueError(f"an expression with the operator {self.operator} has one whole number as 'values'")
        return self


class _NodeTerm(_Camel):
    match_expressions: Annotated[list[_NodeRequirement], Field(min_length=1)]


class _NodePreference(_Camel):
    weight: Weight
    preference: _NodeTerm


class _NodeSelector(_Camel):
    node_selector_terms: Annotated[list[_NodeTerm], Field(min_length=1)]


class NodeAffinity(_Camel):
    """Labels that a node must have, or had better have."""

    required_during_scheduling_ignored_during_execution: _NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: list[_NodePreference] | None = None


class _LabelSelector(_Camel):
    match_labels: dict[Label, LabelValue] | None = None
    match_expressions: list[_Requirement] | None = None


class _PodTerm(_Camel):
    label_selector: _LabelSelector
    topology_key: Label
    namespaces: list[ObjectName] | None = None


class _PodPreference(_Camel):
    weight: Weight
    pod_affinity_term: _PodTerm


class PodAffinity(_Camel):
    """Pods that must be, or had better be, in the same domain: or, as an anti-affinity, in another."""

    required_during_scheduling_ignored_during_execution: list[_PodTerm] | None = None
    preferred_during_scheduling_ignored_during_execution: list[_PodPreference] | None = None


class Affinity(_Camel):
    """Affinity with the fields of Kubernetes."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None

    def manifest(self) -> dict[str, Any]:
        """Return it as Kubernetes takes it."""
        return self.model_dump(by_alias=True, exclude_none=True)


class Topology(Frozen):
    """What the nodes of one job on several nodes share, as the label of nodes that tells it."""

    required: Label | None = None
    """They share it, or wait: topology.kubernetes.io/zone, or the label of a rack, block or placement group."""
    preferred: Label | None = None
    """They share it where there is room."""

    @model_validator(mode="after")
    def _says_something(self) -> Topology:
        if self.required is None and self.preferred is None:
            raise ValueError("a topology names a label of nodes: required, preferred, or both")
        return self
