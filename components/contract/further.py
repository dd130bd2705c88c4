"""Ports for auxiliary models, declared the same way by every stage that takes them."""

from __future__ import annotations

from collections.abc import Iterable

from components.contract.artifacts import ArtifactType
from components.contract.component import Port
from components.contract.endpoints import Api
from components.contract.heads import ANY, LANGUAGE, Head
from components.contract.operators import Bound
from components.contract.params import Params

TEACHERS, SCORERS, JUDGES = "teachers", "scorers", "judges"
PARTNERS = "partners"
"""Of a stage in which several roles write: the models that play the others."""
REFERENCE = "reference"
"""Of a stage that measures: the model that training started from."""
FURTHER = (TEACHERS, SCORERS, JUDGES)

_WRITE: frozenset[Api] = frozenset({"chat", "completions"})
_SCORE: frozenset[Api] = frozenset({"completions"})
_PORTS = {
    TEACHERS: ("Models, or endpoints, that write texts to learn from", _WRITE),
    SCORERS: (
        "Models, or endpoints that echo log-probabilities, that say how likely a text is; or reward models",
        _SCORE,
    ),
    JUDGES: ("Models, or endpoints, that judge texts", _WRITE),
    PARTNERS: ("Models, or endpoints, that write the texts of other roles, such as an actor's for a critic", _WRITE),
    REFERENCE: ("The model that training started from, or an endpoint: says how likely it finds a text", _SCORE),
}


def further_ports(*names: str) -> dict[str, Port]:
    """Return ports with these names, each optional, for any number of models of the run or endpoints."""
    found = {}
    for name in names:
        doc, apis = _PORTS[name]
        many = name != REFERENCE
        heads = ANY if name == SCORERS else LANGUAGE
        found[name] = Port(
            type=ArtifactType.MODEL, doc=doc, optional=True, many=many, further=True, apis=apis, heads=heads
        )
    return found


def asked_ports(operators: Iterable[Bound]) -> dict[str, list[str]]:
    """Return port -> the operators whose configs declare that they query its models, for a component's `asks`."""
    found: dict[str, list[str]] = {}
    for bound in operators:
        for port in asks_of(bound.config):
            found.setdefault(port, []).append(f"{bound.slot} operator {bound.name!r}")
    return {port: list(dict.fromkeys(names)) for port, names in found.items()}


def asks_of(config: Params) -> tuple[str, ...]:
    """Return the ports with further models that an operator with this config queries.

    Its class variable `asks`; its property `asked` where that depends on its settings.
    """
    return tuple(getattr(config, "asked", type(config).asks))


def asked_heads(operators: Iterable[Bound]) -> dict[str, frozenset[Head]]:
    """Return port -> the heads that the operators which query it can use, for a component's `heads`."""
    found: dict[str, frozenset[Head]] = {}
    for bound in operators:
        for port in asks_of(bound.config):
            found[port] = found.get(port, ANY) & type(bound.config).asks_heads
    return found
