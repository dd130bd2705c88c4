"""Conditions: when a stage runs, and what its metrics and outputs must be afterwards."""

from __future__ import annotations

from collections.abc import Mapping

from components.contract.artifacts import ArtifactType
from components.contract.component import Component
from components.contract.errors import InputError, UnknownName
from components.contract.expressions import Expression, ExpressionError, literal
from components.contract.job import Expectation
from components.runtime.gates.known import check_expectation
from pipelines.language.nodes import UNKNOWN, Node
from pipelines.language.problems import Problems, shown
from pipelines.language.references import Resolver
from pipelines.recipe.connect import Connector
from pipelines.recipe.draft import StageDraft
from pipelines.recipe.found import FirstFound, Source, several
from pipelines.recipe.grammar import ExpectationWords, metric_fits

_ROWS = (ArtifactType.DATASET, ArtifactType.ROLLOUTS)
_SCOPE_ROOTS = ("params", "matrix", "round", "seed")


class Conditions:
    """Reads the conditions of the drafts of one recipe."""

    def __init__(
        self, drafts: Mapping[str, StageDraft], connector: Connector, resolver: Resolver, problems: Problems
    ) -> None:
        self._drafts = drafts
        self._connector = connector
        self._resolver = resolver
        self._problems = problems

    def read(self, draft: StageDraft) -> None:
        """Fill in `when` and `gate` of a draft, and check what it expects and registers."""
        self._when(draft)
        if draft.component is not None:
            self._gate(draft)
            self._outputs(draft, draft.component)

    def _when(self, draft: StageDraft) -> None:
        condition = draft.words.when
        if condition is None:
            return
        if isinstance(condition, bool):
            draft.included = condition
            return
        node = draft.node.value["when"]
        expression = self._expression(condition, node, f"stage {draft.cell.template.path!r}, when")
        if expression is None:
            return
        names = {name: self._condition_name(name, node, draft) for name in expression.names}
        if any(replacement is None for replacement in names.values()):
            return
        text = expression.replace({name: str(replacement) for name, replacement in names.items()})
        resolved = self._expression(text, node, f"stage {draft.cell.template.path!r}, when")
        if resolved is not None and resolved.names:
            draft.when = text
        elif resolved is not None:
            draft.included = self._static(resolved, node, draft)

    def _static(self, expression: Expression, node: Node, draft: StageDraft) -> bool:
        try:
            return expression.holds(_no_names)
        except ExpressionError as error:
            self._problems.add(node.mark, f"stage {draft.cell.template.path!r}, when: {error}")
            return True

    def _condition_name(self, name: str, node: Node, draft: StageDraft) -> str | None:
        """Return the run-time meaning of a name in `when`: a literal, or the metric of one stage of the graph."""
        if name.partition(".")[0] in _SCOPE_ROOTS:
            return self._literal(name, node, draft)
        if "." not in name:
            hint = "; put spaces around '-' to subtract" if "-" in name else ""
            self._problems.add(node.mark, f"when: {name!r} is not known; expected stage.metric or params.name{hint}")
            return None
        source = self._other_stage("when", name, node, draft)
        if source is None:
            return None
        draft.needs.setdefault(source.cell.name, node.mark)
        draft.conditions.add(source.cell.name)
        return f"{source.cell.name}.{source.port}"

    def _other_stage(self, what: str, name: str, node: Node, draft: StageDraft) -> Source | None:
        """Return the metric of one stage that a name in `when` or `gate` leads to; None if there is none."""
        found = self._connector.follow(Node(name, node.mark), draft.cell)
        if isinstance(found, str | FirstFound):
            self._problems.add(node.mark, f"{what}: {name!r} is no metric of one stage, which a condition needs")
        if not isinstance(found, list) or not found:
            return None
        if len(found) > 1:
            self._problems.add(node.mark, several(found, f"'{what}'"))
            return None
        self._metric(found[0].port, self._drafts[found[0].cell.name], node)
        return found[0]

    def _gate(self, draft: StageDraft) -> None:
        node = draft.node.child("gate")
        items = node.value if node is not None and isinstance(node.value, list) else [node]
        for text, item in zip(draft.words.gate, items, strict=False):
            assert item is not None
            expression = self._expression(text, item, f"stage {draft.cell.template.path!r}, gate")
            if expression is None:
                continue
            names = {name: self._gate_name(name, item, draft) or "" for name in expression.names}
            metrics = [told for name, told in names.items() if told and name.partition(".")[0] not in _SCOPE_ROOTS]
            if metrics and all("." in told for told in metrics):
                why = "a gate compares this stage's own metrics with them, 'when' does without"
                self._problems.add(item.mark, f"gate: {shown(text)} names metrics of other stages alone; {why}")
            draft.gate.append(expression.replace(names))

    def _gate_name(self, name: str, item: Node, draft: StageDraft) -> str | None:
        """Return the run-time meaning of a name in `gate`: a literal, a metric of its own stage, or stage.metric."""
        if name.partition(".")[0] in _SCOPE_ROOTS:
            return self._literal(name, item, draft)
        root, _, metric = name.rpartition(".")
        if root in ("", draft.cell.template.path):
            self._metric(metric, draft, item)
            return metric
        source = self._other_stage("gate", name, item, draft)
        if source is None:
            return None
        if source.cell.name == draft.cell.name:
            return source.port
        draft.needs.setdefault(source.cell.name, item.mark)
        draft.gated_by.setdefault(source.cell.name, item.mark)
        return f"{source.cell.name}.{source.port}"

    def _expression(self, text: str, node: Node, what: str) -> Expression | None:
        try:
            expression = Expression(text)
            if expression.is_condition:
                return expression
            self._problems.add(
                node.mark, f"{what}: {shown(text)} gives a value; expected a comparison such as x >= 0.5"
            )
        except ExpressionError as error:
            self._problems.add(node.mark, f"{what}: {error}")
        return None

    def _literal(self, name: str, node: Node, draft: StageDraft) -> str | None:
        resolved = self._resolver.resolve(Node(f"${{{name}}}", node.mark), draft.cell.scope)
        if resolved.value is UNKNOWN:
            return None
        try:
            return literal(resolved.plain())
        except ExpressionError as error:
            self._problems.add(node.mark, f"{name}: {error}")
            return None

    def _metric(self, name: str, draft: StageDraft, node: Node) -> None:
        component = draft.component
        if component is None or not component.metrics:
            return
        metrics = component.known_metrics(draft.config)
        if not any(metric_fits(name, known) for known in metrics):
            self._problems.unknown(node.mark, f"metric of {component.name!r}:", name, metrics)
        elif why := component.lacks(draft.config, name):
            self._problems.add(node.mark, f"{name} is not measured: {why}")

    def _outputs(self, draft: StageDraft, component: Component) -> None:
        path = draft.cell.template.path
        for index, expectation in enumerate(draft.words.expect):
            node = draft.node.at(("expect", index))
            port = component.outputs.get(expectation.port)
            if port is None:
                self._problems.unknown(
                    node.at(("port",)).mark, f"output of stage {path!r}:", expectation.port, component.outputs
                )
            elif port.type not in _ROWS:
                self._problems.add(
                    node.at(("port",)).mark, f"expect: {path}.{expectation.port} is a {port.type}, which has no rows"
                )
            self._expectation(expectation, node)
        if draft.words.registration is not None and not any(
            p.type == ArtifactType.MODEL for p in component.outputs.values()
        ):
            node = draft.node.at(("register",))
            self._problems.add(node.mark, f"stage {path!r}, register: {component.name} makes no Model to register")

    def _expectation(self, words: ExpectationWords, node: Node) -> None:
        try:
            check_expectation(Expectation(port=words.port, type=words.type, kwargs=words.kwargs))
        except UnknownName as error:
            self._problems.unknown(node.at(("type",)).mark, error.kind, error.name, error.known)
        except InputError as error:
            self._problems.add(node.at(("kwargs",)).mark, f"expect: {error}")


def _no_names(name: str) -> float:
    raise AssertionError(f"{name} was replaced before")
