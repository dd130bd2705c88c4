"""What a job's inputs resolve to when some of the stages that they name were skipped.

A recipe's input is never dropped silently: the job that needs it is skipped, too, unless the recipe declares a
fallback. The launcher decides from the run's ledger, and a plan from what it knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from components.contract.component import Component
from components.contract.job import FirstOf, InputRef, StageRef, UriRef, alternatives

Plain = StageRef | UriRef


class State(Enum):
    """What is known about an output of an earlier stage."""

    THERE = auto()
    """It is made, or certainly will be."""
    MISSING = auto()
    """Its stage ran and did not make it."""
    SKIPPED = auto()
    """Its stage was skipped, or certainly will be."""
    OPEN = auto()
    """Its stage has yet to run, and may be skipped."""


@dataclass
class Choice:
    """What a job takes on each port."""

    left: dict[str, list[InputRef]] = field(default_factory=dict)
    """Port -> its remaining references: what it takes, and fallbacks not yet decided; never an empty list."""
    skipped_by: tuple[str, list[str]] | None = None
    """A port and the stages that it needs and that do not provide it; the job is skipped, too."""
    missing: tuple[str, StageRef] | None = None
    """A port and the output that its stage ran without making."""
    may_be_skipped: bool = False
    """Whether the job is skipped if earlier stages are, which is not known yet."""


def choose(
    inputs: Mapping[str, Sequence[InputRef]], component: Component, state: Callable[[StageRef], State]
) -> Choice:
    """Return what each port takes, given the known state of the outputs that it names."""
    choice = Choice()
    for port, references in inputs.items():
        listed = [ref for ref in references if not isinstance(ref, FirstOf)]
        _must_have(choice, port, listed, state)
        left: list[InputRef] = []
        for reference in references:
            found = _left_of(choice, port, reference, state) if isinstance(reference, FirstOf) else reference
            twice = found is not reference and (found in listed or found in left)  # also taken by another reference
            left += [] if found is None or twice else [found]
        if references and not component.inputs[port].optional and not any(not_empty(ref) for ref in left):
            choice.may_be_skipped |= bool(left)
            if not left and choice.skipped_by is None:
                choice.skipped_by = port, stages_of(references)
        choice.left |= {port: left} if left else {}
    return choice


def not_empty(reference: InputRef) -> bool:
    """Return whether a reference never resolves to nothing, which satisfies a required port."""
    return not (isinstance(reference, FirstOf) and reference.or_none)


def stages_of(references: Iterable[InputRef]) -> list[str]:
    """Return the stages that references name, each once, in order."""
    return list(dict.fromkeys(ref.stage for ref in alternatives(references) if isinstance(ref, StageRef)))


def _must_have(choice: Choice, port: str, references: Sequence[Plain], state: Callable[[StageRef], State]) -> None:
    """Record in `choice` what the references without a fallback imply for the job."""
    known = [(ref, state(ref)) for ref in references if isinstance(ref, StageRef)]
    skipped = [ref.stage for ref, found in known if found is State.SKIPPED]
    missing = [ref for ref, found in known if found is State.MISSING]
    if skipped and choice.skipped_by is None:
        choice.skipped_by = port, list(dict.fromkeys(skipped))
    if missing and choice.missing is None:
        choice.missing = port, missing[0]
    choice.may_be_skipped |= any(found is State.OPEN for _, found in known)


def _left_of(
    choice: Choice, port: str, reference: FirstOf, state: Callable[[StageRef], State]
) -> Plain | FirstOf | None:
    """Return what a fallback takes, its remaining alternatives while undecided, or None if it resolves to nothing."""
    if reference.picked_by is not None:  # only the run knows which: the launcher settles it first
        choice.may_be_skipped = True
        return reference
    possible: list[Plain] = []
    for ref in reference.first_of:
        found = state(ref) if isinstance(ref, StageRef) else State.THERE
        if found in (State.THERE, State.OPEN):
            possible.append(ref)
        if found is State.THERE:
            return possible[0] if len(possible) == 1 else FirstOf(first_of=possible)
    if possible:
        choice.may_be_skipped |= not reference.or_none
        if len(possible) == 1 and not reference.or_none:
            return possible[0]
        return FirstOf(first_of=possible, or_none=reference.or_none)
    if not reference.or_none and choice.skipped_by is None:
        choice.skipped_by = port, stages_of([reference])
    return None
