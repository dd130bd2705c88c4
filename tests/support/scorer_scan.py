"""What a reasoning-gym scorer can reach: its functions by name, over the modules that its task's module imports."""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Iterator, Mapping
from functools import cache
from types import ModuleType
from typing import Any

LIBRARY = "reasoning_gym"
CODE = ("eval", "exec", "compile", "__import__", "import_module", "run_module", "run_path", "getattr", "setattr")
ALGEBRA = ("parse_expr", "sympify", "S", "lambdify", "simplify", "solve", "nsimplify", "parse_latex", "literal_eval")
PROCESSES = ("check_output", "check_call", "Popen", "system", "popen", "spawnv", "execv", "fork", "load_module")
TEXTS = ("unsafe_load", "full_load", "Template", "format_map", "Fraction", "fromstring")
FILES = ("loadtxt", "genfromtxt", "memmap", "open", "urlopen", "urlretrieve", "get_data", "read_csv")
EVALUATING = frozenset({*CODE, *ALGEBRA, *PROCESSES, *TEXTS, *FILES})
"""Calls by which text becomes code, a file, a process or a very large number. Matched by their last name."""
HARMLESS = {
    ("pool_matrix", "loadtxt"): "is given lines, never the name of a file",
}
"""What was read and found harmless: (task, call) -> why."""


def evaluating_calls(task: str, dataset: type) -> set[str]:
    """Return the names of evaluating calls that `score_answer` of a task reaches. It errs on the side of too many.

    Reached is what a function that is reached mentions by name, in the task's module or one that it imports.
    """
    inherited = dataset.score_answer.__module__ == f"{LIBRARY}.dataset"
    functions = {} if inherited else _functions(dataset.__module__)
    found: set[str] = set()
    pending, seen = [_tree_of(dataset.score_answer)], {"score_answer"}
    while pending:
        names = set()
        for node in ast.walk(pending.pop()):
            if isinstance(node, ast.Name):
                names.add(node.id)
            elif isinstance(node, ast.Attribute):
                names.add(node.attr)
            if isinstance(node, ast.Call) and _called(node) in EVALUATING and not _has_constant_name(node):
                found.add(_called(node))
        for name in names - seen:
            seen.add(name)
            pending += functions.get(name, [])
    return {name for name in found if (task, name) not in HARMLESS}


def _has_constant_name(node: ast.Call) -> bool:
    """Return whether it gets an attribute whose name stands there."""
    return _called(node) in ("getattr", "setattr") and len(node.args) > 1 and isinstance(node.args[1], ast.Constant)


def _called(node: ast.Call) -> str:
    function = node.func
    return (
        function.id if isinstance(function, ast.Name) else function.attr if isinstance(function, ast.Attribute) else ""
    )


def _tree_of(function: Any) -> ast.AST:
    return ast.parse(textwrap.dedent(inspect.getsource(function)))


@cache
def _functions(module: str) -> Mapping[str, list[ast.AST]]:
    """Return name -> definitions of functions and methods in a module's closure within the library."""
    found: dict[str, list[ast.AST]] = {}
    for name in _closure(module):
        for node in ast.walk(ast.parse(inspect.getsource(sys.modules[name]))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name != "score_answer":
                found.setdefault(node.name, []).append(node)
            elif isinstance(node, ast.ClassDef):
                inits = [part for part in node.body if isinstance(part, ast.FunctionDef) and part.name == "__init__"]
                found.setdefault(node.name, []).extend(inits)
    return found


def _closure(module: str) -> Iterator[str]:
    pending, seen = [module], {module}
    while pending:
        name = pending.pop()
        yield name
        for value in vars(sys.modules[name]).values():
            owner = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
            if (
                isinstance(owner, str)
                and owner.startswith(f"{LIBRARY}.")
                and owner in sys.modules
                and owner not in seen
            ):
                seen.add(owner)
                pending.append(owner)
