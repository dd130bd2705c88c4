"""One registry for everything that is looked up by name: components, and the operators that fill their slots.

In-tree ones are found by folder: components/<stage>/component.py, and the modules of a slot's package. Targets are
"module:object" strings and are imported on first use, so listing names costs nothing. Third parties plug in through
Python entry points: group `posttrain.components` (name = component), and group `posttrain.operators` (name =
"slot.operator"). Groups `posttrain.methods` (presets) and `posttrain.recipes` add files: their value is a Python
package whose folder holds them.
"""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from components.contract.errors import InputError, UnknownName
from components.contract.names import Entry, Registry
from components.contract.operator_files.names import package_name, travel_name, written_name
from components.contract.operator_files.operator import FileOperator
from components.contract.plug_ins import plug_ins
from components.contract.slots import EMPTY, Slot, operators_in

COMPONENT_GROUP = "posttrain.components"
OPERATOR_GROUP = "posttrain.operators"
ROOMS = Path(__file__).parents[1]
"""The folder of this tree's components and their building blocks."""


@cache
def components() -> Registry:
    """Return the registry of all components, in-tree and from entry points."""
    registry = Registry("component")
    for name, target in component_targets().items():
        registry.add(name, target, origin=f"{target.partition(':')[0].replace('.', '/')}.py")
    for point in plug_ins(COMPONENT_GROUP):
        registry.add(point.name, point.value, origin=_distribution(point))
    return registry


def component_targets() -> dict[str, str]:
    """Return name -> target of the in-tree components: the folders with a component.py."""
    names = sorted(path.parent.name for path in ROOMS.glob("*/component.py") if path.parent != Path(__file__).parent)
    return {name: f"{ROOMS.name}.{name}.component:COMPONENT" for name in names}


@cache
def slots() -> dict[str, Slot]:
    """Return name -> slot of all slots that this tree declares in slots.py modules."""
    found: dict[str, Slot] = {}
    for path in sorted(ROOMS.glob("*/slots.py")):
        declared = vars(importlib.import_module(f"{ROOMS.name}.{path.parent.name}.slots")).values()
        found |= {slot.name: slot for slot in declared if isinstance(slot, Slot)}
    return found


def operators(slot: Slot | str) -> OperatorRegistry:
    """Return the registry of the operators that fill `slot`: the modules of its package, and entry points.

    A slot that this tree does not declare must be given as a Slot, not by name. Raises UnknownName for an unknown name.
    """
    return _operators_of(slot_named(slot) if isinstance(slot, str) else slot)


def slot_named(name: str) -> Slot:
    """Return the slot with this name; raise UnknownName with near misses."""
    if name not in slots():
        raise UnknownName("operator slot", name, slots())
    return slots()[name]


class OperatorRegistry(Registry):
    """The operators of one slot: the registered ones, and functions in users' files by their content."""

    def __init__(self, slot: Slot) -> None:
        super().__init__(f"{slot.name} operator")
        self.slot = slot
        self._from_files: dict[str, FileOperator] = {}

    def from_file(self, name: str) -> FileOperator | None:
        """Return the operator that `file.py:function@digest` names; None for any other name.

        Raises InputError if this process cannot get the file, or if the function does not fit the slot.
        """
        found = travel_name(name)
        if found is None:
            return None
        if name not in self._from_files:
            self._from_files[name] = FileOperator(self.slot, found)
        return self._from_files[name]

    def entry(self, name: str) -> Entry:
        """Return target and origin of `name`; raise UnknownName with near misses."""
        operator = self.from_file(name)
        return super().entry(name) if operator is None else Entry(operator.target, operator.shown)

    def get(self, name: str) -> Any:
        """Return the operator of that name; raise UnknownName, or InputError when it cannot be loaded."""
        return self.from_file(name) or super().get(name)

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or (isinstance(name, str) and travel_name(name) is not None)

    def hint(self, name: str) -> str:
        """Return which other slots of the same package have an operator of this name: one of them may be meant."""
        if written_name(name):
            return "a file is named in a recipe, as ./file.py:function, and read with it"
        if package_name(name):
            return f"name the package of {name.partition(':')[0]} in the recipe's code: [./folder, ./dist/x.whl]"
        room = self.slot.package.rpartition(".")[0]
        beside = [slot for slot in slots().values() if slot.package.rpartition(".")[0] == room]
        others = [f"{slot}" for slot in beside if name != EMPTY and name in operators(slot)]
        return f"it is an operator of slot {' and '.join(others)}: name it there" if others else ""


@cache
def _operators_of(slot: Slot) -> OperatorRegistry:
    registry = OperatorRegistry(slot)
    for name, module in operators_in(slot.package).items():
        registry.add(name, f"{module}:{name}", origin=f"{module.replace('.', '/')}.py")
    for point in plug_ins(OPERATOR_GROUP):
        point_slot, _, name = point.name.partition(".")
        if point_slot == slot.name:
            registry.add(name, point.value, origin=_distribution(point))
    return registry


@dataclass(frozen=True)
class Folder:
    """A folder of files that a package provides, and the package."""

    folder: Path
    origin: str


@cache
def registered_folders(group: str) -> tuple[Folder, ...]:
    """Return the folders of the Python packages that the entry points of `group` name, without importing them.

    Raises InputError for an entry point that names no package.
    """
    found = []
    for point in sorted(plug_ins(group), key=lambda point: point.name):
        try:
            spec = importlib.util.find_spec(point.value)
        except (ImportError, ValueError) as error:
            raise InputError(f"{_distribution(point)}, entry point {group}: {point.value}: {error}") from error
        if spec is None or not spec.submodule_search_locations:
            raise InputError(f"{_distribution(point)}, entry point {group}: {point.value!r} is no Python package")
        found += [Folder(Path(place), _distribution(point)) for place in spec.submodule_search_locations]
    return tuple(found)


@cache
def plugged_in() -> frozenset[str]:
    """Return the names of the distributions that register components or operators."""
    points = [point for group in (COMPONENT_GROUP, OPERATOR_GROUP) for point in plug_ins(group)]
    return frozenset(point.dist.name for point in points if point.dist)


def _distribution(point: Any) -> str:
    return f"package {point.dist.name} {point.dist.version}" if point.dist else f"entry point {point.name}"
