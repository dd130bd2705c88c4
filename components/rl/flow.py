"""Checks what operators of a step pass to one another on the batch, from their declarations alone.

A name is a field that a slot fills (`reference_logprobs`, `values`), or a mark of an operator: `<name>_s` has a value
per response, `<name>_n` one per token.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from components.contract.errors import InputError
from components.contract.operators import Bound, OperatorMisfit, config_of
from components.contract.registry import operators
from components.contract.slots import EMPTY, Slot
from components.rl.configs import SlotConfig
from components.rl.labels import LABELS

Step = Sequence[tuple[Slot, tuple[Bound, ...]]]
"""Every slot with its operators, in the order of the step."""
SAYS = {"reference_logprobs": "compares with a reference policy", "values": "reads a critic's values"}


def check_flow(step: Step) -> None:
    """Raise InputError for a step without rewards or advantages, and OperatorMisfit for a missing field or mark."""
    if any(not bounds for slot, bounds in step if slot.name in ("reward", "advantage")):
        raise InputError("rl: at least one reward and one advantage operator are needed")
    fillers = {field: bounds[0] for slot, bounds in step for field in slot.writes}
    marks: frozenset[str] = frozenset()
    for slot, bound in _each(step):
        config = bound.config
        if not isinstance(config, SlotConfig):
            continue
        for name in sorted(config.reads - LABELS):
            if name in fillers:
                _check_field(name, slot, bound, fillers[name])
            elif name not in marks and name not in slot.reads:  # what the step itself fills
                raise OperatorMisfit(bound, f"rl: {slot} operator {bound.name!r} reads {name!r}, {_why(name, step)}")
        if config.writes and not slot.marks:
            what = f"rl: {slot} operator {bound.name!r} cannot write {', '.join(sorted(config.writes))}"
            raise OperatorMisfit(bound, f"{what}: it returns no batch")
        marks = config.writes | (frozenset() if config.clears else marks)


def _each(step: Step) -> Iterator[tuple[Slot, Bound]]:
    for slot, bounds in step:
        for bound in bounds:
            yield slot, bound


def _check_field(name: str, slot: Slot, bound: Bound, filler: Bound) -> None:
    if filler.name == EMPTY:
        says = SAYS.get(name, f"reads {name!r}")
        raise OperatorMisfit(bound, f"rl: {bound.name} {says}, but {filler.slot} is {EMPTY!r}")
    if name not in slot.reads:
        raise OperatorMisfit(bound, f"rl: {slot} operator {bound.name!r} reads {name!r}, which is filled behind it")


def _why(name: str, step: Step) -> str:
    """Return why a mark is missing, and which operators would write it."""
    for slot, bound in _each(step):
        if isinstance(bound.config, SlotConfig) and name in bound.config.writes:
            return f"which {slot} operator {bound.name!r} writes after it, or one between them drops"
    writers = [f"{slot} operator {other!r}" for slot, _ in step if slot.marks for other in _writers(slot, name)]
    return f"which no operator before it writes; add {' or '.join(writers) or 'one that does'}"


def _writers(slot: Slot, name: str) -> Iterator[str]:
    known = operators(slot)
    for other in known.names():
        try:
            config = config_of(known.get(other), other)
        except InputError:  # a plug-in that cannot be loaded is no advice
            continue
        if issubclass(config, SlotConfig) and name in config.writes:
            yield other
