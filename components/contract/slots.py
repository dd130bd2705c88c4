"""Slot: a position that an operator fills, declared once, as the single source of an operator's slot.

A package declares its slots in its `slots.py`, at module level; a field of parameters that holds an operator has the
type `Annotated[OperatorSpec, SOURCE]`, and a list of them `Annotated[tuple[OperatorSpec, ...], SOURCE]`. Registry,
recipe checks, fingerprints, `posttrain operators` and the documentation's tables are derived from that.
"""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from components.contract.errors import InputError
from components.contract.params import Params
from components.contract.python_text import parse_module

EMPTY = "none"
"""The operator that leaves a slot empty."""


@dataclass(frozen=True, kw_only=True)
class Plain:
    """A simple signature for functions in users' files, beside the operators' own."""

    call: str
    """Its arguments, all given by name, and what it returns."""
    takes: str
    """The argument by which it is recognised."""
    adapter: str
    """Lazy "module:function" target: takes the file's operator and returns a function with the slot's own signature."""
    also: str | None = None
    """The parameter that functions written for another tool take in its place."""


@dataclass(frozen=True, kw_only=True)
class Slot:
    """A kind of operator: its name, the package that holds its operators, and what they may do."""

    name: str
    """In the singular; entry points of packages are called `<name>.<operator>`."""
    package: str
    """Python package in which every module <operator>.py is an operator: the function of the module's name."""
    summary: str
    """One line for help pages and tables: what its operators decide."""
    call: str = ""
    """What its functions take besides `config`, and what they return."""
    plain: Plain | None = None
    """What a function in a user's file may take instead."""
    many: bool = False
    """Whether it holds a list of operators, in order."""
    config: type[Params] = Params
    """Base class of its operators' configs."""
    default: str | None = None
    """The operator that fills it by default; None if one must be given, or if an empty list is fine."""
    reads: frozenset[str] = frozenset()
    """Fields filled by other slots that exist when its operators run; an operator's config lists in `reads` which of
    them it reads."""
    writes: frozenset[str] = frozenset()
    """Fields that exist because this slot is filled, that is, by an operator other than `none`."""
    first: tuple[str, ...] = ()
    """Operators that lists show first, in this order; the others follow by name."""
    marks: bool = False
    """Whether its operators can pass on marks, which a config lists in `writes`."""

    def __str__(self) -> str:
        return self.name

    @property
    def arguments(self) -> tuple[str, ...]:
        """Return the names of the arguments that `call` declares."""
        inside, _, _ = self.call.partition(") ->")
        try:
            tree = parse_module(f"def operator{inside}): ...")
        except SyntaxError as error:
            raise InputError(
                f"slot {self.name!r}: its call {self.call!r} does not begin with (name: Type, ...)"
            ) from error
        function = tree.body[0]
        assert isinstance(function, ast.FunctionDef)
        return tuple(argument.arg for argument in function.args.args)

    def place(self, given: Any) -> Any:
        """Return an operator, or a tuple of them, bound to this slot."""
        return tuple(map(self.place, given)) if isinstance(given, tuple) else given.in_slot(self)

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Bind a validated operator to its slot, so that nothing guesses the slot from a field's name."""
        return core_schema.no_info_after_validator_function(self.place, handler(source))


@cache
def operators_in(package: str) -> Mapping[str, str]:
    """Return operator -> module for every module of a package and of the packages in it, without imports.

    The packages in it are rooms of a slot with many operators; names are those of the modules, all different.
    Raises InputError if it is no package, or if two modules have one name.
    """
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError) as error:
        raise InputError(f"slot package {package!r}: {error}") from error
    if spec is None or not spec.submodule_search_locations:
        raise InputError(f"slot package {package!r} is no Python package")
    found: dict[str, str] = {}
    for place in map(Path, spec.submodule_search_locations):
        for path in (*sorted(place.glob("*.py")), *sorted(place.glob("*/*.py"))):
            if path.stem.startswith("_"):
                continue
            module = ".".join((package, *path.relative_to(place).with_suffix("").parts))
            if found.setdefault(path.stem, module) != module:
                raise InputError(f"slot package {package!r}: {found[path.stem]} and {module} have one name")
    return found
