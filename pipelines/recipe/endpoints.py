"""Endpoints: servers that stand in for models, read from the section `endpoints` of the file of pools.

A recipe names one as endpoint:<name>. Its key is never read here: the file holds only the name of a variable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from components.contract.component import Component, Port
from components.contract.endpoints import NO_SECRETS, VARIABLE, Endpoint, endpoint_name
from pipelines.language.document import read_document
from pipelines.language.find import is_name
from pipelines.language.nodes import Node
from pipelines.language.problems import Problems, shown
from pipelines.language.wording import add_schema_errors
from pipelines.recipe.pools import ENDPOINTS, pools_file

Source = Callable[[], Mapping[str, Endpoint]]


def load_endpoints(path: Path | None = None) -> dict[str, Endpoint]:
    """Return all endpoints; raise RecipeErrors with file and line of every mistake."""
    section = read_document(path or pools_file()).root.child(ENDPOINTS)
    if section is None or section.value is None:
        return {}
    problems = Problems()
    if not isinstance(section.value, dict):
        problems.add(
            section.mark, f"{ENDPOINTS}: got {shown(section.plain())}, expected 'name: {{base_url: ...}}' lines"
        )
        problems.stop()
    found = {name: _endpoint(name, node, problems) for name, node in section.value.items()}
    problems.stop()
    return {name: endpoint for name, endpoint in found.items() if endpoint is not None}


def _endpoint(name: str, node: Node, problems: Problems) -> Endpoint | None:
    if not is_name(name):
        problems.add(node.where, f"endpoint {shown(name)}: not a name (a-z, 0-9, '-', '_')")
        return None
    key = node.child("key_env") if isinstance(node.value, dict) else None
    if key is not None and key.value is not None and not (isinstance(key.value, str) and VARIABLE.fullmatch(key.value)):
        # the value may be the key itself, so it is not repeated
        expected = "expected the name of an environment variable; a key is never written into a file"
        problems.add(key.mark, f"endpoint {name!r}, key_env: {expected}")
        return None
    address = node.child("base_url") if isinstance(node.value, dict) else None
    if address is not None and isinstance(address.value, str) and ("@" in address.value or "?" in address.value):
        problems.add(address.mark, f"endpoint {name!r}, base_url: {NO_SECRETS}")
        return None
    plain: Any = node.plain()
    try:
        return Endpoint.model_validate(plain)
    except ValidationError as error:
        add_schema_errors(problems, error, node, what=f"endpoint {name!r}, ", schema=Endpoint)
        return None


class Endpoints:
    """The endpoints that the stages of a recipe may name; the file is read on first use."""

    def __init__(self, source: Source, problems: Problems) -> None:
        self._source, self._problems = source, problems
        self.named: dict[str, Endpoint] = {}
        """Endpoints that stages name."""

    @cached_property
    def _known(self) -> Mapping[str, Endpoint]:
        return self._source()

    def check(self, node: Node, uri: str, taker: str, port: Port, component: Component) -> None:
        """Note problems of a port's URI that names an endpoint."""
        endpoint = endpoint_name(uri)
        if endpoint is None:
            return
        if not port.apis:
            ports = [other for other, info in component.inputs.items() if info.apis]
            instead = (
                f"ports of {component.name!r} that take one: {', '.join(ports)}" if ports else "no port of it does"
            )
            self._problems.add(node.mark, f"{taker} needs a model's weights, and {uri!r} is a server ({instead})")
        elif endpoint not in self._known:
            self._problems.unknown(node.mark, "endpoint", endpoint, self._known)
        elif (api := self._known[endpoint].api) not in port.apis:
            wanted = " or ".join(sorted(port.apis))
            self._problems.add(
                node.mark, f"{taker} needs an endpoint with 'api: {wanted}', and {uri!r} has 'api: {api}'"
            )
        else:
            self.named[endpoint] = self._known[endpoint]


def check_further(
    problems: Problems,
    node: Node,
    given: Mapping[str, Node],
    path: str,
    component: Component,
    config: Any,
    absent: Mapping[str, str],
) -> None:
    """Note further models that nothing reads, and inputs that an operator needs but that are not connected.

    `absent` are inputs that may be empty when the stage runs -> why.
    """
    asked = component.asks(config) if component.asks else {}
    for name, port in component.inputs.items():
        if port.further and name in given and name not in asked:
            reader = f"no operator that stage {path!r} names asks it"
            problems.add(
                given[name].where, f"input {name!r} of stage {path!r} is read by nothing: {reader}; leave it out"
            )
        if name in absent and (users := asked.get(name)):
            why = f"{', '.join(users)} asks it, and {absent[name]}"
            problems.add(given[name].where, f"input {name!r} of stage {path!r}: {why}")
        if name not in given and (users := asked.get(name)):
            some = f"'in: {{{name}: STAGE.{port.type.value.lower()}}}'"
            if port.further:
                some = f"name models of the run, or endpoint:<name>, by 'in: {{{name}: [...]}}'"
            problems.add(
                node.where,
                f"stage {path!r}: {', '.join(users)} asks the input {name!r}, which is not connected; {some}",
            )
