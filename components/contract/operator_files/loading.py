"""Running an operator's file: in the process of the stage only, never where a recipe is read or planned.

Each file becomes a module of its own, named by the digest of its code, so that two operators with equally named files
do not meet. An import of a module beside it gets the text that travelled; any other import is Python's own.
"""

from __future__ import annotations

import builtins
import linecache
import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType, SimpleNamespace
from typing import Any

from components.contract.operator_files.code import OperatorCode
from components.contract.operator_packages import mount
from components.contract.operator_packages.code import ModuleCode

PREFIX = "posttrain_file_"
"""Names of these modules begin so."""
SHOWN_DIGITS = 16


def load(code: OperatorCode | ModuleCode) -> ModuleType:
    """Return the module of an operator, run on first use; raises what its top level raises."""
    if isinstance(code, ModuleCode):
        return mount.load(code)
    return _Loader(code).module(code.file)


class _Loader:
    def __init__(self, code: OperatorCode) -> None:
        self._code = code

    def module(self, file: str) -> ModuleType:
        name = f"{PREFIX}{self._code.digest[:SHOWN_DIGITS]}.{file.removesuffix('.py')}"
        if name in sys.modules:
            return sys.modules[name]
        module, shown, text = ModuleType(name), self._code.shown(file), self._code.files[file]
        module.__dict__["__builtins__"] = {**vars(builtins), "__import__": self._import}
        linecache.cache[shown] = (len(text), None, text.splitlines(keepends=True), shown)  # for tracebacks
        sys.modules[name] = module
        try:
            exec(compile(text, shown, "exec", dont_inherit=True), module.__dict__)
        except BaseException:
            del sys.modules[name]
            raise
        return module

    def _import(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
        fromlist: Sequence[str] = (),
        level: int = 0,
    ) -> Any:
        """Import as Python does, but modules beside the file from what travelled with it."""
        if level and not name:  # from . import a, b
            return SimpleNamespace(**{item: self.module(f"{item}.py") for item in fromlist})
        if f"{name}.py" in self._code.files:
            return self.module(f"{name}.py")
        original: Callable[..., Any] = builtins.__import__
        return original(name, globals, locals, fromlist, level)


def place_of(error: BaseException) -> str | None:
    """Return file and line of the innermost frame of an exception that lies in a user's file; None without one."""
    place, trace = None, error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if str(trace.tb_frame.f_globals.get("__name__", "")).startswith(PREFIX):
            place = f"{file}:{trace.tb_lineno}"
        elif shown := mount.shown_place(file):
            place = f"{shown}:{trace.tb_lineno}"
        trace = trace.tb_next
    if isinstance(error, SyntaxError) and place is None and error.filename:
        place = f"{error.filename}:{error.lineno}"
    return place
