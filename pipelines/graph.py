"""The graph of drafts: cycles are refused, and stages that cannot run are left out."""

from __future__ import annotations

from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter

from components.contract.job import StageRef
from pipelines.draft import Draft
from pipelines.problems import Problems

MAX_SHOWN_CYCLE = 8


def refuse_cycles(drafts: Mapping[str, Draft], problems: Problems) -> None:
    """Note every cycle by the names that its stages have in the file."""
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


def leave_out(drafts: Mapping[str, Draft]) -> dict[str, str]:
    """Return stage -> reason for those whose condition is false before the run, and those that cannot do without.

    A stage loses what the left-out ones would have given to optional ports and to lists.
    """
    left_out = {name: f"when is false: {draft.words.when}" for name, draft in drafts.items() if not draft.included}
    changed = bool(left_out)
    while changed:
        changed = False
        for name, draft in drafts.items():
            if name in left_out or draft.component is None:
                continue
            if gone := draft.conditions & left_out.keys():
                left_out[name] = f"when: {min(gone)} is left out"
                changed = True
                continue
            for port, references in draft.inputs.items():
                kept = [r for r in references if not (isinstance(r, StageRef) and r.stage in left_out)]
                if references and not kept and not draft.component.inputs[port].optional:
                    producer = next(r.stage for r in references if isinstance(r, StageRef))
                    left_out[name] = f"input {port}: {producer} is left out"
                    changed = True
                    break
    return left_out
