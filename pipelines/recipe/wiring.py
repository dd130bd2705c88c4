"""Wiring: the inputs of a stage and the order among stages; ports and their types are checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from components.contract.component import Component, Port
from components.contract.endpoints import endpoint_name
from components.contract.heads import LANGUAGE, in_words
from components.contract.job import FirstOf, InputRef, StageRef, UriRef
from components.runtime.inputs.choice import not_empty
from pipelines.language.nodes import UNKNOWN, Node
from pipelines.language.problems import Problems, shown
from pipelines.recipe.connect import NONE, Connector
from pipelines.recipe.draft import StageDraft
from pipelines.recipe.endpoints import Endpoints, check_further
from pipelines.recipe.found import FirstFound, Source, agree, several
from pipelines.recipe.sweep.section import SWEEP


class Wiring:
    """Connects the drafts of one recipe."""

    def __init__(
        self, drafts: Mapping[str, StageDraft], connector: Connector, endpoints: Endpoints, problems: Problems
    ) -> None:
        self._drafts = drafts
        self._endpoints = endpoints
        self._connector = connector
        self._problems = problems

    def connect(self, draft: StageDraft) -> None:
        """Fill in a draft's inputs and the stages that it needs."""
        self._after(draft)
        if draft.component is not None:
            self._inputs(draft, draft.component)

    def _inputs(self, draft: StageDraft, component: Component) -> None:
        path = draft.cell.template.path
        node = draft.node.child("in")
        given: dict[str, Node] = {}
        if node is not None and isinstance(node.value, dict):
            given = node.value
        elif node is not None and node.value is not None:
            if node.value is not UNKNOWN:
                self._problems.add(
                    node.mark, f"stage {path!r}, in: got {shown(node.plain())}, expected 'port: stage.port'"
                )
            return
        misspelt: set[str] = set()
        absent: dict[str, str] = {}
        for name, child in given.items():
            port = component.inputs.get(name)
            if port is None:
                self._problems.unknown(child.where, f"input of {component.name!r}:", name, component.inputs)
                misspelt |= {port for port in component.inputs if port not in given}
            else:
                draft.inputs[name], is_absent = self._input(draft, name, _narrowed(port, name, draft), child)
                if is_absent:
                    absent[name] = f"the first round carries {NONE} into it"
                elif draft.inputs[name] and not any(map(not_empty, draft.inputs[name])):
                    absent[name] = f"its fallback may end with {NONE}"
        if draft.config is not None and not misspelt:
            check_further(self._problems, node or draft.node, given, path, component, draft.config, absent)
        missing = [name for name, port in component.inputs.items() if not (port.optional or name in given)]
        if missing and not misspelt:
            ports = ", ".join(f"{name!r} ({component.inputs[name].type})" for name in missing)
            place = node.where if node is not None else draft.node.where
            self._problems.add(place, f"stage {path!r}: {component.name} needs the input {ports}")

    def _input(self, draft: StageDraft, name: str, port: Port, node: Node) -> tuple[list[InputRef], bool]:
        """Return what an input refers to, and whether it is absent: a first round that carries none into it."""
        path = draft.cell.template.path
        taker = f"input {name!r} of stage {path!r}"
        items = node.value if isinstance(node.value, list) and port.many else [node]
        if not items or node.value == []:  # on a port that takes one, the list is a fallback
            expected = "a list of at least one reference" if port.many else "a reference, or several to fall back on"
            self._problems.add(node.mark, f"{taker}: got [], expected {expected}")
            return [], False
        references: list[InputRef] = []
        num_none = 0
        for item in items:
            found = self._connector.follow(item, draft.cell)
            if isinstance(found, str):
                references.append(self._uri(draft, name, port, item, found))
            elif isinstance(found, FirstFound) and not found.alternatives:
                num_none += 1
            elif isinstance(found, FirstFound):
                references += self._fallbacks(draft, name, port, item, found)
            elif found and len(found) > 1 and not port.many:
                self._problems.add(item.mark, several(found, taker))
            for source in found if isinstance(found, list) else ():
                references.append(self._reference(draft, port, taker, item, source))
        is_absent = num_none == len(items)
        if is_absent and not port.optional:
            self._problems.add(node.mark, f"{taker} is needed, and the first round carries {NONE!r} into it")
        return references, is_absent

    def _uri(self, draft: StageDraft, name: str, port: Port, node: Node, uri: str) -> UriRef:
        assert draft.component is not None
        taker = f"input {name!r} of stage {draft.cell.template.path!r}"
        if endpoint_name(uri) is not None and port.apis and not port.heads & LANGUAGE:
            self._problems.add(node.mark, f"{taker} takes {in_words(port.heads)}, and {uri!r} is a language model")
        self._endpoints.check(node, uri, taker, port, draft.component)
        if draft.deterministic and endpoint_name(uri) is not None:
            self._problems.add(
                node.mark,
                f"{taker} is {uri!r}, whose answers nobody can repeat, and the stage is to be deterministic: set "
                "'backend: {deterministic: false}' for it, or take a model of the run",
            )
        return UriRef(uri=uri)

    def _reference(self, draft: StageDraft, port: Port, taker: str, node: Node, source: Source) -> StageRef:
        draft.needs.setdefault(source.cell.name, node.mark)
        self._port(node, source, port, taker, self._drafts[source.cell.name].component)
        return StageRef(stage=source.cell.name, port=source.port)

    def _fallbacks(self, draft: StageDraft, name: str, port: Port, node: Node, found: FirstFound) -> list[InputRef]:
        """Return a fallback, or one for each cell that its first reference means where the port takes many."""
        taker = f"input {name!r} of stage {draft.cell.template.path!r}"
        if found.picked:
            draft.needs.setdefault(SWEEP, node.mark)
            trials = [
                self._reference(draft, port, taker, node, sources[0])
                for sources in found.alternatives
                if isinstance(sources, list)
            ]
            return [FirstOf(first_of=[*trials], picked_by=StageRef(stage=SWEEP, port="best_trial"))]
        if found.or_none and not (port.optional or port.many):
            self._problems.add(node.mark, f"{taker} is needed: its fallback cannot end with {NONE!r}")
            return []
        first = found.alternatives[0]
        anchors: list[Source | None] = [*first] if isinstance(first, list) and port.many else [None]
        references: list[InputRef] = []
        for anchor in anchors:
            plain: list[StageRef | UriRef] = []
            for other, place in zip(found.alternatives, found.places, strict=True):
                if isinstance(other, str):
                    plain.append(self._uri(draft, name, port, place, other))
                    continue
                sources = _beside(anchor, other, is_first=other is first)
                if len(sources) != 1:
                    if other:  # else the referenced stage is broken, which is noted
                        self._problems.add(place.mark, several(other, taker))
                    return []
                plain.append(self._reference(draft, port, taker, place, sources[0]))
            needs_choice = len(plain) > 1 or found.or_none
            references.append(FirstOf(first_of=plain, or_none=found.or_none) if needs_choice else plain[0])
        return references

    def _port(self, node: Node, source: Source, port: Port, taker: str, producer: Component | None) -> None:
        if producer is None:
            return
        stage = source.cell.template.path
        output = producer.outputs.get(source.port)
        if output is None:
            self._problems.unknown(node.mark, f"output of stage {stage!r}:", source.port, producer.outputs)
        elif output.type != port.type:
            fits = [f"{stage}.{name}" for name, other in producer.outputs.items() if other.type == port.type]
            hint = f"; did you mean {' or '.join(map(repr, fits))}?" if fits else ""
            self._problems.add(
                node.mark, f"{taker} takes a {port.type}, and {stage}.{source.port} is a {output.type}{hint}"
            )
        elif not output.heads & port.heads:
            self._problems.add(
                node.mark,
                f"{taker} takes {in_words(port.heads)}, and {stage}.{source.port} is {in_words(output.heads)}",
            )

    def _after(self, draft: StageDraft) -> None:
        node = draft.node.child("after")
        items = node.value if node is not None and isinstance(node.value, list) else [node]
        for text, item in zip(draft.words.after, items, strict=False):
            assert item is not None
            for other in self._connector.follow_stages(Node(text, item.mark), draft.cell):
                draft.needs.setdefault(other.name, item.mark)


def _narrowed(port: Port, name: str, draft: StageDraft) -> Port:
    """Return a port with the heads that the operators of a stage can use, where these are fewer than its own."""
    if draft.component is None or draft.component.heads is None or draft.config is None:
        return port
    wanted = draft.component.heads(draft.config).get(name)
    return port if wanted is None else replace(port, heads=port.heads & wanted)


def _beside(anchor: Source | None, sources: list[Source], *, is_first: bool) -> list[Source]:
    """Return the sources of a fallback that may replace `anchor`, a cell of its first reference."""
    if anchor is None or len(sources) == 1:
        return sources
    return [anchor] if is_first else [source for source in sources if agree(source.cell, anchor.cell)]
