"""Commands that list what recipes can use: components and operators, from their declarations."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Iterator, Mapping
from typing import Any, get_args

from pydantic import BaseModel

from components.contract import registry
from components.contract.component import Component
from components.contract.errors import InputError, UnknownName, nearest
from components.contract.names import Registry
from components.contract.operators import OperatorSpec, config_of
from components.contract.slots import Slot
from pipelines.cli.output import print_json, print_table
from pipelines.docs.fields import describe_fields


def components(arguments: argparse.Namespace) -> int:
    """List all components, or show one."""
    known = registry.components()
    if arguments.name is None:
        rows = [_summary(known, name) for name in known.names()]
        if arguments.json:
            print_json([dict(zip(("name", "role", "summary", "image", "origin"), row, strict=True)) for row in rows])
        else:
            print_table(["component", "role", "what it does", "image", "registered by"], rows)
        return 0
    component: Component = known.get(arguments.name)
    if arguments.json:
        print_json(component_json(component, known.entry(arguments.name).origin))
    else:
        _print_component(component)
    return 0


def component_json(component: Component, origin: str) -> dict[str, Any]:
    """Return a component as JSON for scripts; "params" is a JSON schema."""
    return {
        "name": component.name,
        "summary": component.summary,
        "role": component.role.value,
        "image": component.image,
        "origin": origin,
        "inputs": {
            name: {"type": port.type.value, "doc": port.doc, "optional": port.optional, "many": port.many}
            for name, port in component.inputs.items()
        },
        "outputs": {
            name: {"type": port.type.value, "doc": port.doc, "optional": port.optional}
            for name, port in component.outputs.items()
        },
        "params": component.params.model_json_schema(),
        "metrics": dict(component.metrics),
        "alarms": {
            alarm.name: {"bound": alarm.bound, "rows": alarm.rows, "reason": alarm.reason} for alarm in component.alarms
        },
    }


def operators(arguments: argparse.Namespace) -> int:
    """List operators by slot, or show one's settings."""
    everywhere = _all_slots()
    if arguments.slot and arguments.name is None and arguments.slot not in everywhere:
        return _named_operators(everywhere, arguments)
    slots = [_slot(arguments.slot)] if arguments.slot else [slot for _, slot in sorted(everywhere.items())]
    if arguments.name is not None:
        return _operator(slots[0], arguments.name, as_json=arguments.json)
    rows = [_operator_summary(slot, name) for slot in slots for name in _listed(slot)]
    if arguments.json:
        print_json([dict(zip(("slot", "name", "summary", "origin"), row, strict=True)) for row in rows])
        return 0
    if arguments.slot:
        _print_slot(slots[0])
    print_table(["slot", "operator", "what it does", "registered by"], rows)
    return 0


def _listed(slot: Slot) -> list[str]:
    """Return the operators of a slot as lists show them: those that it names first, then the others."""
    names = registry.operators(slot).names()
    return [name for name in slot.first if name in names] + [name for name in names if name not in slot.first]


def _named_operators(slots: Mapping[str, Slot], arguments: argparse.Namespace) -> int:
    """Show the operators of one name, in whatever slot; raise InputError with the nearest slot or operator."""
    name: str = arguments.slot
    found = [slot for _, slot in sorted(slots.items()) if name in registry.operators(slot).names()]
    if not found:
        known = [*slots, *(other for slot in slots.values() for other in registry.operators(slot).names())]
        near = nearest(name[:99], known)
        hint = f"; did you mean {near!r}?" if near else ""
        raise InputError(f"unknown slot or operator {name!r:.80}{hint} (posttrain operators lists them)")
    for index, slot in enumerate(found):
        if index and not arguments.json:
            print()
        _operator(slot, name, as_json=arguments.json)
    return 0


def _slot(name: str) -> Slot:
    known = registry.slots()
    if name not in known:
        known = _all_slots()
    if name not in known:
        raise UnknownName("operator slot", name, known)
    return known[name]


def _all_slots() -> dict[str, Slot]:
    """Return name -> slot: this tree's slots, and those in the parameters of components from other packages."""
    known, found = registry.components(), dict(registry.slots())
    for name in known.names():
        try:
            component: Component = known.get(name)
        except InputError:  # `posttrain components` reports why
            continue
        for slot in _slots_in(component.params):
            found.setdefault(slot.name, slot)
    return found


def _slots_in(annotation: Any) -> Iterator[Slot]:
    if isinstance(annotation, Slot):
        yield annotation
    elif inspect.isclass(annotation) and issubclass(annotation, BaseModel) and annotation is not OperatorSpec:
        for info in annotation.model_fields.values():
            for part in (info.annotation, *info.metadata):
                yield from _slots_in(part)
    for part in get_args(annotation):
        yield from _slots_in(part)


def _print_slot(slot: Slot) -> None:
    """Print what the operators of a slot take and return."""
    unsaid = f"; {slot.default} by default" if slot.default else ""
    print(f"slot {slot}: {slot.summary} ({'a list, in order' if slot.many else 'one operator'}{unsaid})")
    print(f"{slot.call}\n" if slot.call else "")
    if slot.plain:
        print(f"in a file of yours also {slot.plain.call}\n")


def _operator(slot: Slot, name: str, *, as_json: bool) -> int:
    function = registry.operators(slot).get(name)
    config = config_of(function, f"{slot} operator {name!r}")
    if as_json:
        facts = {"slot": slot.name, "name": name, "doc": inspect.getdoc(function) or ""}
        print_json({**facts, "config": config.model_json_schema()})
        return 0
    print(f"{slot} operator {name}: {inspect.getdoc(function) or ''}\n")
    _print_fields("settings", config)
    return 0


def _print_component(component: Component) -> None:
    print(f"{component.name}: {component.summary} ({component.role}, image {component.image})\n")
    ports = [
        [kind, name, f"{'list of ' if port.many else ''}{port.type}", "optional" if port.optional else "", port.doc]
        for kind, declared in (("in", component.inputs), ("out", component.outputs))
        for name, port in declared.items()
    ]
    print_table(["", "port", "type", "", "what it is"], ports, title="ports")
    print()
    _print_fields("parameters", component.params)
    if component.metrics:
        print()
        print_table(["metric", "what it is"], [list(item) for item in component.metrics.items()], title="metrics")
    if component.alarms:
        print()
        rows = [[alarm.name, f"{alarm.bound:g}", str(alarm.rows), alarm.reason] for alarm in component.alarms]
        print_table(["alarm", "bound", "rows", "why this bound"], rows, title="alarms")


def _print_fields(title: str, model: type[BaseModel]) -> None:
    rows = [list(row) for row in describe_fields(model)]
    if rows:
        print_table([title.removesuffix("s"), "type", "default", "what it is"], rows)
    else:
        print(f"no {title}")


def _summary(known: Registry, name: str) -> list[str]:
    origin = known.entry(name).origin
    try:
        component: Component = known.get(name)
    except InputError as error:  # one broken plug-in must not hide the others
        return [name, "-", f"cannot be loaded: {error}", "-", origin]
    return [name, component.role.value, component.summary, component.image, origin]


def _operator_summary(slot: Slot, name: str) -> list[str]:
    known = registry.operators(slot)
    origin = known.entry(name).origin
    try:
        doc = inspect.getdoc(known.get(name)) or ""
    except InputError as error:
        doc = f"cannot be loaded: {error}"
    return [slot.name, name, doc.partition("\n")[0], origin]
