"""The section `licenses`: which licences a recipe refuses. What is known from its text is checked before a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pydantic import ValidationError

from components.contract.job import UriRef, alternatives
from components.contract.licenses import LicenseGate, LicenseRule
from components.contract.operator_files.names import plain_name
from components.runtime.lineage.graph.producers import IN_STORE
from pipelines.language.nodes import Node
from pipelines.language.problems import Mark, Problems, meant, shown
from pipelines.language.wording import add_schema_errors
from pipelines.recipe.draft import StageDraft
from pipelines.recipe.sources import NamedSource, named_sources

LICENSES = "licenses"


def read_licenses(root: Node, drafts: Mapping[str, StageDraft], problems: Problems) -> None:
    """Note sources and inputs under a refused licence, and give each stage what its end has to ask."""
    node = root.child(LICENSES)
    if node is None or node.value is None:
        return
    try:
        rule = LicenseRule.model_validate(node.plain())
    except ValidationError as error:
        add_schema_errors(problems, error, node, what="licenses.", schema=LicenseRule)
        return
    known: set[str] = set()
    for draft in drafts.values():
        known.update(_check(draft, rule, problems))
    declared = node.child("declared")
    for name in rule.declared.keys() - known:
        where = declared.child(name) if declared is not None else None
        near = meant(name, sorted(known))
        problems.add((where or node).where, f"licenses.declared: no source or input is called {shown(name)}{near}")


def _check(draft: StageDraft, rule: LicenseRule, problems: Problems) -> Iterator[str]:
    """Check what a stage reads; yield the names of its sources and the addresses of its inputs."""
    open_sources = {}
    for source in named_sources(draft.params):
        yield from source.names
        declared = rule.of(sorted(source.names))
        if declared is None and source.license is None and _may_tell(source):
            open_sources[source.position] = source.label
            continue
        license = declared or source.license
        is_data = source.is_data or license is not None
        if is_data and (refused := rule.refusal(f"source {source.label!r}", [license] if license else [])):
            problems.add(_mark(draft, source), f"stage {draft.cell.template.path!r}: {refused}{_hint(license)}")
    has_inputs = False
    for port, references in draft.inputs.items():
        for reference in alternatives(references):
            if isinstance(reference, UriRef):
                has_inputs = True
                yield reference.uri
                license = rule.of([reference.uri])
                is_known = license is not None and not reference.uri.startswith(IN_STORE)
                if is_known and (refused := rule.refusal(f"input {port} {reference.uri}", [str(license)])):
                    problems.add(draft.node.where, f"stage {draft.cell.template.path!r}: {refused}")
    if open_sources or has_inputs:
        draft.licenses = LicenseGate(rule=rule, open_sources=open_sources)


def _may_tell(source: NamedSource) -> bool:
    """Return whether a source may state its licence once it is read: one in a file or package of the user's own."""
    return any(":" in plain_name(name) and name.partition(":")[0].endswith(".py") for name in source.names)


def _hint(license: str | None) -> str:
    return "" if license else "; say what it is: licenses: {declared: {NAME: LICENCE}}"


def _mark(draft: StageDraft, source: NamedSource) -> Mark:
    path = ("sources", source.position, "source")
    given = draft.given or draft.node
    return draft.operators.get(path) or draft.operators.get(path[:2]) or given.at(path).mark
