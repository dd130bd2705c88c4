"""The graph of drafts: refuses cycles and leaves out stages that cannot run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from graphlib import CycleError, TopologicalSorter

from components.contract.component import Component
from components.contract.job import InputRef, StageRef
from components.runtime.inputs.choice import State, choose, stages_of
from pipelines.language.problems import Problems
from pipelines.recipe.draft import StageDraft

MAX_SHOWN_CYCLE = 8


def refuse_cycles(drafts: Mapping[str, StageDraft], problems: Problems) -> None:
    """Note every cycle, by the file's names of its stages."""
    graph = {name: set(draft.needs) for name, draft in drafts.items()}
    while True:
        try:
            TopologicalSorter(graph).prepare()
            return
        except CycleError as error:
            cycle: list[str] = error.args[1][::-1]  # from consumer to producer
        paths = list(dict.fromkeys(drafts[name].cell.template.path for name in cycle))
        first = min(range(len(cycle) - 1), key=lambda i: drafts[cycle[i]].node.where)
        consumer, producer = cycle[first], cycle[first + 1]
        start = paths.index(drafts[consumer].cell.template.path)
        names = [*paths[start:], *paths[:start], paths[start]]
        if len(names) > MAX_SHOWN_CYCLE:
            names = [*names[: MAX_SHOWN_CYCLE - 1], "...", names[-1]]
        problems.add(drafts[consumer].needs[producer], f"stages need one another in a cycle: {' -> '.join(names)}")
        for name in cycle:
            graph[name] = set()


def leave_out(drafts: Mapping[str, StageDraft]) -> dict[str, str]:
    """Return stage -> reason for stages whose condition is false before the run, and for stages that depend on them.

    A stage whose input comes from a left-out stage is also left out, unless its fallback has another source.
    """
    left_out = {name: f"when is false: {draft.words.when}" for name, draft in drafts.items() if not draft.included}
    changed = bool(left_out)
    while changed:
        changed = False
        for name, draft in drafts.items():
            if name in left_out or draft.component is None:
                continue
            reason = _reason(draft, draft.component, left_out)
            if reason is not None:
                left_out[name] = reason
                changed = True
    return left_out


def _reason(draft: StageDraft, component: Component, left_out: Mapping[str, str]) -> str | None:
    """Return why a stage cannot run without the left-out stages, or None if it can."""
    if gone := draft.conditions & left_out.keys():
        return f"when: {min(gone)} is left out"
    skipped = choose(draft.inputs, component, _state(left_out)).skipped_by
    if skipped is None:
        return None
    port, stages = skipped
    return f"input {port}: {' and '.join(stages)} {'is' if len(stages) == 1 else 'are'} left out"


def refuse_blind_gates(drafts: Mapping[str, StageDraft], left_out: Mapping[str, str], problems: Problems) -> None:
    """Note a gate on a stage that is left out before the run: nothing would be compared with, and nothing held back."""
    for name, draft in drafts.items():
        for stage, mark in draft.gated_by.items():
            if name not in left_out and stage in left_out:
                problems.add(mark, f"gate: {stage} is left out ({left_out[stage]}); give {name} the same 'when'")


def remaining(draft: StageDraft, left_out: Mapping[str, str]) -> dict[str, list[InputRef]]:
    """Return the inputs of a running stage, without those from left-out stages."""
    assert draft.component is not None
    return choose(draft.inputs, draft.component, _state(left_out)).left


def replaced(draft: StageDraft, left_out: Mapping[str, str]) -> dict[str, list[str]]:
    """Return port -> left-out stages that its fallback replaces or omits."""
    gone = {port: [stage for stage in stages_of(refs) if stage in left_out] for port, refs in draft.inputs.items()}
    return {port: stages for port, stages in gone.items() if stages}


def _state(left_out: Mapping[str, str]) -> Callable[[StageRef], State]:
    return lambda ref: State.SKIPPED if ref.stage in left_out else State.OPEN
