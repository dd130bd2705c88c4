"""A function in a file as an operator of a slot: checked from its text, run where the operator is called."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from components.contract.errors import InputError, OperatorFailed, UnknownName
from components.contract.names import load_target
from components.contract.operator_files import library
from components.contract.operator_files.calling import finished
from components.contract.operator_files.code import OperatorCode
from components.contract.operator_files.declared import CONFIG, Function, declared, declared_function
from components.contract.operator_files.loading import load, place_of
from components.contract.operator_files.names import SHOWN_DIGITS, TravelName
from components.contract.operator_files.raised import fails_again, in_words
from components.contract.operator_files.settings import settings_class
from components.contract.operator_packages.code import ModuleCode, PackageCode
from components.contract.params import Params
from components.contract.slots import Slot


class FileOperator:
    """An operator whose function lies in a user's file. It runs the file when it is first called."""

    def __init__(self, slot: Slot, name: TravelName) -> None:
        """Raises InputError, with the file's line, if the function does not fit the slot."""
        self.slot, self.name = slot, name
        self.code = _known(slot, name)
        self.function = declared_function(self.code, name.function)
        self.is_plain = _is_plain(slot, self.function, self.where)
        self.config_type = self._config_type()
        parameter = inspect.Parameter(CONFIG, inspect.Parameter.KEYWORD_ONLY, annotation=self.config_type)
        self.__signature__ = inspect.Signature([parameter])
        self.__name__, self.__doc__ = name.function, self.function.doc or None

    @property
    def where(self) -> str:
        """Return file and line of the function."""
        return f"{self.code.shown()}:{self.function.line}"

    @property
    def shown(self) -> str:
        """Return file and function, as messages show them."""
        return f"{self.code.shown()}:{self.name.function}"

    @property
    def target(self) -> str:
        """Return a module of posttrain that runs when the operator does."""
        assert self.slot.plain is not None or not self.is_plain
        return self.slot.plain.adapter if self.slot.plain and self.is_plain else f"{self.slot.package}:"

    def __call__(self, *args: Any, config: Params) -> Any:
        """Call the function with the slot's arguments, and the settings as its own class."""
        if self.slot.plain is not None and self.is_plain:
            return self._adapted(*args, config=config)
        if self.function.config is None:
            return self._loaded(*args)
        return self._loaded(*args, config=self._own_config(config))

    @cached_property
    def _loaded(self) -> Callable[..., Any]:
        function: Callable[..., Any] = getattr(load(self.code), self.name.function)
        return function

    @cached_property
    def _adapted(self) -> Callable[..., Any]:
        assert self.slot.plain is not None
        adapt = load_target(self.slot.plain.adapter, f"slot {self.slot}")
        adapted: Callable[..., Any] = adapt(self)
        return adapted

    def call_by_name(self, available: Mapping[str, Any]) -> Any:
        """Call the function with what it takes by name of `available`, and await it if it is async.

        Raises OperatorFailed for what is not there, RuntimeError for a function that calls sys.exit.
        """
        missing = sorted(self.function.required - available.keys())
        if missing:
            raise self.failed(f"takes {', '.join(missing)}, which these rows lack (they have: {', '.join(available)})")
        taken = (
            available
            if self.function.takes_any
            else {name: value for name, value in available.items() if name in self.function.by_name}
        )
        return finished(lambda: self._loaded(**taken))

    def failed(self, what: str) -> OperatorFailed:
        """Return the error of a function that did something wrong, such as "returned 3 numbers for 4 completions"."""
        return OperatorFailed(f"{self.slot} operator {self.shown} {what} ({self.where})", edit=self.where)

    def raised(self, error: Exception, when: str = "") -> OperatorFailed:
        """Return the error of a function that raised, with the line where it did."""
        place = place_of(error) or self.where
        what = f"{self.slot} operator {self.shown} raised {in_words(error)}{f' {when}' if when else ''}, at {place}"
        return OperatorFailed(what, edit=place if fails_again(error) else None, raised=error)

    def _own_config(self, config: Params) -> Any:
        known: dict[int, Any] = self.__dict__.setdefault("_configs", {})
        if id(config) not in known:
            annotation = self._loaded.__annotations__.get(CONFIG)
            own = vars(load(self.code)).get(annotation) if isinstance(annotation, str) else annotation
            if not (inspect.isclass(own) and issubclass(own, Params)):
                raise InputError(f"{self.where}: {annotation} is no Params class when the file runs")
            known[id(config)] = own.model_validate(config.model_dump(exclude_unset=True)), config
        return known[id(config)][0]

    def _config_type(self) -> type[Params]:
        if self.function.config is None:
            return self.slot.config
        return settings_class(declared(self.code), self.function.config, self.slot.config, self.function.line)


def _known(slot: Slot, name: TravelName) -> OperatorCode | ModuleCode:
    code = library.find(name.digest)
    if code is None:
        raise InputError(
            f"{slot} operator {name.file}:{name.function} ({name.digest[:SHOWN_DIGITS]}): its file came neither with "
            "this job nor lies in this store; a recipe that names the file brings it along"
        )
    if isinstance(code, PackageCode):
        return code.needed_module(name.file)
    if code.file != name.file:
        raise UnknownName(f"file of digest {name.digest[:SHOWN_DIGITS]}", name.file, [code.file])
    return code


def _is_plain(slot: Slot, function: Function, where: str) -> bool:
    """Return whether a function has the slot's plain signature; raise InputError if it fits neither."""
    if not slot.call:
        return False  # a slot of another package that does not say what it calls
    positions = slot.arguments
    given = tuple(name.lstrip("_") for name in function.positional)
    needs_more = function.required - {CONFIG} - set(function.positional[: len(positions)])
    fits = given[: len(positions)] == positions and not needs_more
    full = f"({', '.join([*positions, '*', f'config: {slot.config.__name__}'])})"
    if fits and not function.is_async:
        return False
    if fits:
        raise InputError(f"{where}: {function.name} is async; an operator with this signature is a plain function")
    if (
        slot.plain
        and function.config is None
        and ({slot.plain.takes, slot.plain.also} & function.by_name or function.takes_any)
    ):
        return True
    expected = f"{slot.plain.call}, or {full}" if slot.plain else full
    raise InputError(f"{where}: {function.name} does not fit the slot {slot}: expected {expected}")
