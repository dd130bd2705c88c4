"""Slot: a place that an operator fills, declared once. What knows an operator's slot knows it from here.

A room declares its slots in its `slots.py`, at the top level of the module; a field of parameters that holds an
operator says so in its type, `source: Annotated[OperatorSpec, SOURCE]`, and a list of them is
`Annotated[tuple[OperatorSpec, ...], SOURCE]`. Registry, checks of recipes, fingerprints, `posttrain operators` and the
tables of the documentation follow from that.
"""

from __future__ import annotations

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

EMPTY = "none"
"""The operator by which a slot is left empty."""


@dataclass(frozen=True, kw_only=True)
class Slot:
    """A kind of operators: how it is called, where its operators lie and what they may do."""

    name: str
    """In the singular; entry points of packages are called `<name>.<operator>`."""
    package: str
    """Python package in which every module <operator>.py is an operator: the function of the module's name."""
    summary: str
    """One line for help pages and tables: what an operator of it decides."""
    call: str = ""
    """What its functions are given beside `config`, and what they return."""
    many: bool = False
    """Whether it holds a list of operators, in order."""
    config: type[Params] = Params
    """Base class of its operators' configs."""
    default: str | None = None
    """The operator that fills it where nothing is said; None where something must be said, or an empty list will do."""
    reads: frozenset[str] = frozenset()
    """Fields that other slots fill and that are there when its operators run; which of them one reads, its config says
    in `reads`."""
    writes: frozenset[str] = frozenset()
    """Fields that are there because this slot is filled, that is by another operator than `none`."""
    marks: bool = False
    """Whether its operators can hand on marks of their own, which a config names in `writes`."""

    def __str__(self) -> str:
        return self.name

    def place(self, given: Any) -> Any:
        """Return an operator, or a tuple of them, as it stands in this slot."""
        return tuple(map(self.place, given)) if isinstance(given, tuple) else given.in_slot(self)

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Let a validated operator know its slot, so that nothing guesses it from the name of a field."""
        return core_schema.no_info_after_validator_function(self.place, handler(source))


@cache
def operators_in(package: str) -> Mapping[str, Path]:
    """Return operator -> file of every module of a package; none is imported. Raises InputError for no package."""
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError) as error:
        raise InputError(f"slot package {package!r}: {error}") from error
    if spec is None or not spec.submodule_search_locations:
        raise InputError(f"slot package {package!r} is no Python package")
    files = [path for place in spec.submodule_search_locations for path in sorted(Path(place).glob("*.py"))]
    return {path.stem: path for path in files if not path.stem.startswith("_")}
